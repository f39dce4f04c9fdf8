//! Way into the crate for `fuzz/`, and for a test that keeps it whole: what reads the rings that a target may have written
//! over.

use crate::allocators::Allocators;
use crate::message::{Message, messages};

/// Reads all messages in these words of a ring, and all that they hold.
pub fn ring_messages(words: &[u64]) {
    let mut text = Vec::new();
    let allocators = Allocators::new(&[]);
    for message in messages(words).flatten() {
        match message {
            Message::Sample(sample) => {
                let blocks = sample.blocks().len();
                assert!(sample.block.is_none_or(|row| row < blocks), "a block that is not there");
                assert!(sample.accesses().count() <= words.len());
            }
            Message::Maps(maps) => maps.append_text(&mut text),
            Message::Allocator(event) => drop(allocators.found(event)),
            Message::Range(..) | Message::Thread(_) => {}
        }
    }
    assert!(text.len() <= 8 * words.len(), "more text than there are bytes");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        /// Small words are kinds, lengths and counts more often.
        #[test]
        fn whatever_a_ring_holds_is_read(
            words in prop::collection::vec(prop_oneof![any::<u64>(), 0..64_u64, (0..9_u64, 0..99_u64).prop_map(|(kind, bytes)| bytes << 32 | kind)], 0..200),
        ) {
            super::ring_messages(&words);
        }
    }
}
