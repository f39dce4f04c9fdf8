//! Collections of other crates in a context.

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use slimline_tidy::Context;

#[test]
fn collections_grow_and_shrink_in_their_arena() {
    let context = Context::with_bucket_bytes(&[8], 1024).unwrap();
    let mut numbers = Vec::new_in(context.hinted(&[3]).unwrap());
    for number in 0..1000_u32 {
        numbers.push(number);
        let (bytes, statistics) = (numbers.capacity() * 4, context.statistics());
        assert_eq!((statistics.bytes, statistics.large_bytes), if bytes > 1024 { (0, bytes) } else { (bytes, 0) });
    }
    assert_eq!(numbers.iter().sum::<u32>(), 499_500);
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers.as_slice(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!((context.statistics().bytes, context.statistics().large_bytes), (40, 0));
    drop(numbers);
    assert_eq!((context.statistics().objects, context.statistics().large_objects), (0, 0));
}

#[test]
fn boxes_of_one_hint_are_neighbours() {
    let context = Context::new(&[8, 8]).unwrap();
    let here = context.hinted(&[2, 5]).unwrap();
    let there = context.hinted(&[5, 2]).unwrap();
    let first = Box::new_in([1_u64; 2], here);
    let _other = Box::new_in([2_u64; 2], there);
    let second = Box::new_in([3_u64; 2], here);
    assert_eq!((&raw const *second).addr() - (&raw const *first).addr(), 16);
    let nothing: Vec<(), _> = Vec::new_in(here);
    assert_eq!(nothing.len(), 0);
}
