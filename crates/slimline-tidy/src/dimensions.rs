//! From a hint to the number of its arena.

use crate::Error;

/// Dimensions of a context at most.
pub const MAX_DIMENSIONS: usize = 16;

/// Arenas of a context at most: the product of its dimensions.
pub const MAX_ARENAS: usize = 1 << 28;

/// The sizes of a context's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dimensions {
    sizes: [usize; MAX_DIMENSIONS],
    /// Of a size that is a power of two, what a value modulo it leaves; else all bits.
    masks: [usize; MAX_DIMENSIONS],
    count: usize,
    arenas: usize,
}

impl Dimensions {
    /// None at all are one arena.
    pub(crate) fn new(sizes: &[usize]) -> Result<Self, Error> {
        if sizes.len() > MAX_DIMENSIONS {
            return Err(Error::TooManyDimensions(sizes.len()));
        }
        if let Some(dimension) = sizes.iter().position(|size| *size == 0) {
            return Err(Error::EmptyDimension(dimension));
        }
        let product = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        let arenas = product.filter(|product| *product <= MAX_ARENAS).ok_or(Error::TooManyArenas)?;
        let mut all = [1; MAX_DIMENSIONS];
        all[..sizes.len()].copy_from_slice(sizes);
        let masks = all.map(|size| if size.is_power_of_two() { size - 1 } else { usize::MAX });
        Ok(Self { sizes: all, masks, count: sizes.len(), arenas })
    }

    /// Their product.
    pub(crate) fn arenas(&self) -> usize {
        self.arenas
    }

    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes[..self.count]
    }

    /// Each value modulo the size of its dimension; the last one varies fastest.
    #[inline(always)]
    pub(crate) fn arena(&self, hint: &[usize]) -> Result<usize, Error> {
        if hint.len() != self.count {
            return Err(Error::HintLength { given: hint.len(), dimensions: self.count });
        }
        let mut arena = 0;
        for (dimension, value) in hint.iter().enumerate() {
            let size = self.sizes[dimension];
            let value = value & self.masks[dimension];
            // A division takes as long as all the rest, and most hints and sizes need none.
            arena = arena * size + if value < size { value } else { value % size };
        }
        Ok(arena)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_wrap_around_in_each_dimension() {
        let dimensions = Dimensions::new(&[3, 4]).unwrap();
        assert_eq!(dimensions.arenas(), 12);
        assert_eq!(dimensions.arena(&[0, 0]), Ok(0));
        assert_eq!(dimensions.arena(&[2, 3]), Ok(11));
        // 7 mod 3 = 1, 9 mod 4 = 1.
        assert_eq!(dimensions.arena(&[7, 9]), Ok(5));
        // −1 as an unsigned number of 64 bits: mod 3 is 0, as 2^64 − 1 is divisible by 3; mod 4 is 3.
        #[cfg(target_pointer_width = "64")]
        assert_eq!(dimensions.arena(&[usize::MAX, usize::MAX]), Ok(3));
    }

    #[test]
    fn no_dimension_is_one_arena() {
        let dimensions = Dimensions::new(&[]).unwrap();
        assert_eq!((dimensions.arenas(), dimensions.arena(&[])), (1, Ok(0)));
    }

    #[test]
    fn what_makes_no_context() {
        assert_eq!(Dimensions::new(&[4, 0]), Err(Error::EmptyDimension(1)));
        assert_eq!(Dimensions::new(&[1; 17]), Err(Error::TooManyDimensions(17)));
        assert_eq!(Dimensions::new(&[usize::MAX, 2]), Err(Error::TooManyArenas));
        assert_eq!(Dimensions::new(&[MAX_ARENAS, 2]), Err(Error::TooManyArenas));
        assert_eq!(Dimensions::new(&[MAX_ARENAS]).unwrap().arenas(), 1 << 28);
        let one = Dimensions::new(&[5]).unwrap();
        assert_eq!(one.arena(&[1, 2]), Err(Error::HintLength { given: 2, dimensions: 1 }));
    }
}
