//! Numbers as bytes.

use alloc::vec::Vec;

/// Version of the form.
pub const VERSION: u64 = 1;

/// Takes bytes.
pub trait Output {
    /// Takes one more byte.
    fn put(&mut self, byte: u8);

    /// A number from zero, in one byte for seven bits.
    fn unsigned(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.put(number as u8 | 0x80);
            number >>= 7;
        }
        self.put(number as u8);
    }
    /// A number of either sign.
    fn signed(&mut self, number: i64) {
        self.unsigned((number << 1 ^ number >> 63) as u64);
    }
    /// A number that may be missing.
    fn maybe(&mut self, number: Option<i64>) {
        self.put(u8::from(number.is_some()));
        if let Some(number) = number {
            self.signed(number);
        }
    }
}

impl Output for Vec<u8> {
    fn put(&mut self, byte: u8) {
        self.push(byte);
    }
}

/// Room for `N` bytes, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Buffer<N> {
    fn default() -> Buffer<N> {
        Buffer { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Buffer<N> {
    /// The bytes; `None` if there were more than it has room for.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }
}

impl<const N: usize> Output for Buffer<N> {
    fn put(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }
}

/// Reads numbers from bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins with the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }
    /// How many bytes have been read.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }
    /// Whether all bytes have been read.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }
    /// The next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
    /// A number that [`Output::unsigned`] wrote; `None` if it is cut off or longer than 64 bits.
    pub fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
    /// A number that [`Output::signed`] wrote.
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }
    /// A number that [`Output::maybe`] wrote; the outer `None` is what is damaged.
    pub fn maybe(&mut self) -> Option<Option<i64>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.signed().map(Some),
            _ => None,
        }
    }
    /// A truth value, which is a byte of 0 or 1.
    pub fn truth(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    /// A number that the type has.
    pub fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.unsigned()?).ok()
    }
}

/// FNV-1a of 64 bits, which names a table. It finds slips; an attacker could compute it, too.
#[must_use]
pub const fn hash(bytes: &[u8]) -> u64 {
    let (mut sum, mut at) = (0xcbf2_9ce4_8422_2325u64, 0);
    while at < bytes.len() {
        sum = (sum ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_survive() {
        takt_testing::for_all(256, (any::<u64>(), any::<i64>(), any::<Option<i64>>()), |(a, b, c)| {
            let mut out = Vec::new();
            out.unsigned(a);
            out.signed(b);
            out.maybe(c);
            let mut reader = Reader::new(&out);
            prop_assert_eq!((reader.unsigned(), reader.signed(), reader.maybe()), (Some(a), Some(b), Some(c)));
            prop_assert!(reader.is_at_end());
            Ok(())
        });
    }

    #[test]
    fn numbers_that_are_cut_off_or_too_long_are_none() {
        assert_eq!(Reader::new(&[0x80]).unsigned(), None);
        assert_eq!(Reader::new(&[0xff; 10]).unsigned(), None);
        assert_eq!(Reader::new(&[]).unsigned(), None);
        assert_eq!(Reader::new(&[0x80, 0x80, 4]).small::<u16>(), None);
        let mut short: Buffer<2> = Buffer::default();
        short.unsigned(1 << 20);
        assert_eq!(short.bytes(), None);
    }
}
