//! Reading numbers and arrays out of bytes that may end anywhere.

use std::fmt;

/// In which order the machine that wrote a record stores the bytes of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Lowest first: x86-64, AArch64 as it is used, RISC-V.
    #[default]
    Little,
    /// Highest first: s390x, older POWER.
    Big,
}

impl ByteOrder {
    /// Of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// Bits `first..first + width` of a C bit field in `word`, counted in the order of declaration: compilers fill bit
    /// fields from the lowest bit where bytes are stored lowest first, else from the highest.
    pub fn bit_field(self, word: u64, first: u32, width: u32) -> u64 {
        let shift = match self {
            Self::Little => first,
            Self::Big => 64 - first - width,
        };
        (word >> shift) & (u64::MAX >> (64 - width))
    }
}

/// A record that ends before its fields do, or states what can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Malformed {
    /// What was being read.
    pub within: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "ends within its {}", self.within)
    }
}

/// What is left to read of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    /// Of a record's body.
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// The order of bytes.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// All that is left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, count: usize, within: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Malformed { within })?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, within: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed { within })?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    pub fn u8(&mut self, within: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(within)?[0])
    }

    /// The next number of 16 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u16(&mut self, within: &'static str) -> Result<u16, Malformed> {
        let bytes = self.array(within)?;
        Ok(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    /// The next number of 32 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u32(&mut self, within: &'static str) -> Result<u32, Malformed> {
        let bytes = self.array(within)?;
        Ok(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    /// The next number of 64 bits.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn u64(&mut self, within: &'static str) -> Result<u64, Malformed> {
        Ok(word(self.array(within)?, self.order))
    }

    /// The next `count` numbers of 64 bits. Nothing is allocated for a count that is not true.
    ///
    /// # Errors
    /// Too few bytes are left.
    pub fn words(&mut self, count: u64, within: &'static str) -> Result<Words<'a>, Malformed> {
        let bytes = self.sized(count.checked_mul(8).ok_or(Malformed { within })?, within)?;
        Ok(Words { bytes, order: self.order })
    }

    /// The next `count` bytes, of a count that was read.
    ///
    /// # Errors
    /// There are fewer.
    pub fn sized(&mut self, count: u64, within: &'static str) -> Result<&'a [u8], Malformed> {
        self.take(usize::try_from(count).map_err(|_| Malformed { within })?, within)
    }

    /// Bytes up to the first zero, or all that is left; takes all that is left.
    pub fn text(&mut self) -> &'a [u8] {
        let all = std::mem::take(&mut self.bytes);
        let end = all.iter().position(|&byte| byte == 0).unwrap_or(all.len());
        &all[..end]
    }

    /// Splits the last `count` bytes off.
    ///
    /// # Errors
    /// There are fewer.
    pub fn split_tail(&mut self, count: usize, within: &'static str) -> Result<Fields<'a>, Malformed> {
        let body = self.bytes.len().checked_sub(count).ok_or(Malformed { within })?;
        let (bytes, tail) = self.bytes.split_at(body);
        self.bytes = bytes;
        Ok(Self { bytes: tail, order: self.order })
    }
}

fn word(bytes: [u8; 8], order: ByteOrder) -> u64 {
    match order {
        ByteOrder::Little => u64::from_le_bytes(bytes),
        ByteOrder::Big => u64::from_be_bytes(bytes),
    }
}

/// Numbers of 64 bits inside a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Words<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The one at `index`.
    pub fn get(&self, index: usize) -> Option<u64> {
        self.iter().nth(index)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let order = self.order;
        let (words, _) = self.bytes.as_chunks::<8>();
        words.iter().map(move |bytes| word(*bytes, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_orders() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let mut little = Fields::new(&bytes, ByteOrder::Little);
        assert_eq!(little.u16("a"), Ok(0x0201));
        assert_eq!(little.u32("a"), Ok(0x0605_0403));
        assert_eq!(little.u64("a"), Ok(0x0e0d_0c0b_0a09_0807));
        assert_eq!(little.u16("end"), Err(Malformed { within: "end" }));
        assert_eq!(little.u8("a"), Ok(15));
        let mut big = Fields::new(&bytes, ByteOrder::Big);
        assert_eq!(big.u16("a"), Ok(0x0102));
        assert_eq!(big.u32("a"), Ok(0x0304_0506));
        assert_eq!(big.u64("a"), Ok(0x0708_090a_0b0c_0d0e));
    }

    #[test]
    fn counts_are_not_trusted() {
        let bytes = [0; 24];
        let mut fields = Fields::new(&bytes, ByteOrder::Little);
        assert_eq!(fields.words(u64::MAX, "array"), Err(Malformed { within: "array" }));
        assert_eq!(fields.words(1 << 61, "array"), Err(Malformed { within: "array" }));
        assert_eq!(fields.words(4, "array"), Err(Malformed { within: "array" }));
        assert_eq!(fields.words(3, "array").unwrap().len(), 3);
        assert!(fields.rest().is_empty());
        assert_eq!(fields.split_tail(1, "trailer"), Err(Malformed { within: "trailer" }));
    }

    #[test]
    fn bit_fields_are_counted_as_declared() {
        // struct { u64 a:1, b:2, c:61; } with a = 1, b = 2, c = 0.
        assert_eq!(ByteOrder::Little.bit_field(0b101, 1, 2), 2);
        assert_eq!(ByteOrder::Big.bit_field(0b110 << 61, 0, 1), 1);
        assert_eq!(ByteOrder::Big.bit_field(0b110 << 61, 1, 2), 2);
        assert_eq!(ByteOrder::Little.bit_field(u64::MAX, 0, 64), u64::MAX);
    }

    #[test]
    fn text_ends_at_the_first_zero_or_at_the_end() {
        let mut fields = Fields::new(b"name\0\0rest", ByteOrder::Little);
        assert_eq!(fields.text(), b"name");
        assert!(fields.rest().is_empty());
        assert_eq!(Fields::new(b"unended", ByteOrder::Little).text(), b"unended");
    }
}
