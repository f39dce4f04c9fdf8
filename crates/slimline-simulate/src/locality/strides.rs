//! How far accesses are from the ones before.

/// Different strides that are told apart; programs have few, or no regular ones.
const MOST: usize = 32;

/// Strides between consecutive accesses of one key.
#[derive(Clone, Debug, Default)]
pub struct Strides {
    first: Option<u64>,
    last: Option<u64>,
    bytes: u32,
    /// The stride that goes on, and how often.
    run: (i64, u64),
    counts: Vec<(i64, u64)>,
    others: u64,
}

/// A stride in bytes, and how often it occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// From one access to the next.
    pub bytes: i64,
    /// How often.
    pub count: u64,
}

impl Strides {
    pub(super) fn add(&mut self, address: u64, bytes: u32) {
        let Some(last) = self.last.replace(address) else {
            (self.first, self.bytes) = (Some(address), bytes);
            return;
        };
        let stride = address.wrapping_sub(last).cast_signed();
        if self.run.0 == stride {
            self.run.1 += 1;
            return;
        }
        let ended = std::mem::replace(&mut self.run, (stride, 1));
        self.note(ended);
    }

    fn note(&mut self, (stride, count): (i64, u64)) {
        match self.counts.iter().position(|(known, _)| *known == stride) {
            Some(place) => self.counts[place].1 += count,
            None if self.counts.len() < MOST => self.counts.push((stride, count)),
            None => self.others += count,
        }
    }

    /// Adds those of another key. The way from one to the other is none.
    pub fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.max(other.bytes);
        self.others += other.others;
        other.counts.iter().chain([&other.run]).for_each(|&stride| self.note(stride));
    }

    /// Address and bytes of the first access.
    pub fn first(&self) -> Option<(u64, u32)> {
        self.first.map(|address| (address, self.bytes))
    }

    /// The strides of several instructions that are copies of one, as an unrolled loop has them: each goes by `stride`, the next
    /// one is `spacing` behind it, and once all had their turn the first one follows again. Together they are one that goes by
    /// `spacing`. Where they begin elsewhere the first one says from where to where.
    pub fn of_copies(copies: &[&Self], stride: i64, spacing: i64) -> Self {
        let Some(one) = copies.first() else { return Self::default() };
        let last_is_behind = spacing.wrapping_mul(copies.len() as i64 - 1);
        let accesses: u64 = copies.iter().map(|copy| copy.total() + 1).sum();
        let mut all = Self { first: one.first, last: one.last, bytes: one.bytes, ..Self::default() };
        for Stride { bytes, count } in one.most_frequent().into_iter().filter(|other| other.bytes != stride) {
            all.note((bytes.wrapping_sub(last_is_behind), count));
        }
        all.others += one.others;
        all.note((spacing, (accesses - 1).saturating_sub(all.total())));
        all
    }

    /// All strides.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum::<u64>() + self.run.1 + self.others
    }

    /// The most frequent ones, first that; those that were too many to be told apart are left out.
    pub fn most_frequent(&self) -> Vec<Stride> {
        let mut all = self.clone();
        let run = std::mem::take(&mut all.run);
        all.note(run);
        let mut strides: Vec<Stride> =
            all.counts.iter().filter(|(_, n)| *n > 0).map(|&(bytes, count)| Stride { bytes, count }).collect();
        strides.sort_by_key(|stride| (std::cmp::Reverse(stride.count), stride.bytes));
        strides
    }

    /// Those to the next element, or back: as far as an access is long.
    pub fn unit(&self) -> u64 {
        let is_unit = |stride: &&Stride| stride.bytes.unsigned_abs() == u64::from(self.bytes);
        self.most_frequent().iter().filter(is_unit).map(|stride| stride.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_told_by_their_strides() {
        let mut strides = Strides::default();
        for pass in 0..3 {
            (0..10).for_each(|element| strides.add(1000 * pass + element * 8, 8));
        }
        let told = |strides: &Strides| {
            strides.most_frequent().iter().map(|stride| (stride.bytes, stride.count)).collect::<Vec<_>>()
        };
        assert_eq!(told(&strides), [(8, 27), (928, 2)]);
        assert_eq!((strides.total(), strides.unit()), (29, 27));
        let mut other = Strides::default();
        [80, 40, 0].into_iter().for_each(|address| other.add(address, 8));
        other.merge(&strides);
        assert_eq!(told(&other), [(8, 27), (-40, 2), (928, 2)]);
        assert_eq!((other.total(), Strides::default().total()), (31, 0));
    }

    #[test]
    fn copies_are_one() {
        // Elements of 64 bytes, by four at a time, 40 of them three times over; once as a loop that is not unrolled.
        let (mut copies, mut plain) = (vec![Strides::default(); 4], Strides::default());
        for element in (0..3).flat_map(|_| 0..40) {
            copies[element as usize % 4].add(element * 64, 8);
            plain.add(element * 64, 8);
        }
        let told = |strides: &Strides| {
            strides.most_frequent().iter().map(|stride| (stride.bytes, stride.count)).collect::<Vec<_>>()
        };
        assert_eq!(told(&copies[1]), [(256, 27), (-2304, 2)]);
        let copies: Vec<&Strides> = copies.iter().collect();
        let joined = Strides::of_copies(&copies, 256, 64);
        assert_eq!(told(&joined), [(64, 117), (-2496, 2)]);
        assert_eq!((told(&plain), joined.total(), joined.first()), (told(&joined), 119, Some((0, 8))));
    }

    #[test]
    fn irregular_ones_take_bounded_memory() {
        let mut strides = Strides::default();
        (0..1000_u64).for_each(|n| strides.add(n * n, 1));
        assert_eq!(strides.total(), 999);
        assert!(strides.most_frequent().len() <= MOST);
    }
}
