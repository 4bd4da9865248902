//! Columns of numbers, as small as they get: differences in variable-length numbers, deflated while they come.

use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params};
use std::io;

/// With matches of more than these 16 tries, columns are 4 % smaller, and deflating takes four times as long.
const LEVEL: i32 = 4;
/// A column is deflated in parts of so many bytes. A shorter one needs no compressor until its end.
const PART: usize = 1 << 16;
/// Base64 is written in parts of so many bytes, a multiple of three.
const WRITTEN: usize = 3 << 12;

/// A column that is written number by number.
#[derive(Default)]
pub(super) struct Column {
    plain: Vec<u8>,
    packed: Vec<u8>,
    compressor: Option<Box<CompressorOxide>>,
    /// How many numbers it has.
    pub(super) count: u64,
}

impl Column {
    /// Seven bits a byte, the lowest first; the highest bit says that another byte follows (LEB128).
    #[inline]
    pub(super) fn unsigned(&mut self, mut value: u64) {
        self.count += 1;
        while value >= 0x80 {
            self.plain.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.plain.push(value as u8);
        if self.plain.len() >= PART {
            self.deflate(TDEFLFlush::None);
        }
    }

    /// Numbers near zero are short, whatever their sign.
    #[inline]
    pub(super) fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A number that may be absent.
    pub(super) fn optional(&mut self, value: Option<u64>) {
        self.unsigned(value.map_or(0, |value| value + 1));
    }

    fn deflate(&mut self, flush: TDEFLFlush) {
        let raw = || Box::new(CompressorOxide::new(create_comp_flags_from_zip_params(LEVEL, -15, 0)));
        let compressor = self.compressor.get_or_insert_with(raw);
        let packed = &mut self.packed;
        compress_to_output(compressor, &self.plain, flush, |part| {
            packed.extend_from_slice(part);
            true
        });
        self.plain.clear();
    }

    /// The whole column, deflated.
    pub(super) fn packed(mut self) -> Vec<u8> {
        self.deflate(TDEFLFlush::Finish);
        self.packed
    }
}

/// Base64 of RFC 4648, with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let sextet = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit > chunk.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    text
}

/// Writes bytes in base64, without a second copy of them in memory.
pub(super) fn write_base64(bytes: &[u8], out: &mut dyn io::Write) -> io::Result<()> {
    bytes.chunks(WRITTEN).try_for_each(|part| out.write_all(base64(part).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec;

    #[test]
    fn base64_is_that_of_the_standard() {
        // The test vectors of RFC 4648, section 10.
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        let (long, mut written) = (vec![7; 2 * WRITTEN + 1], Vec::new());
        write_base64(&long, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), base64(&long));
    }

    #[test]
    fn numbers_near_zero_take_one_byte() {
        let mut column = Column::default();
        [0, -1, 1, -64, 63].into_iter().for_each(|value| column.signed(value));
        assert_eq!(column.plain, [0, 1, 2, 127, 126]);
        column.signed(64);
        column.optional(None);
        column.optional(Some(127));
        assert_eq!((&column.plain[5..], column.count), (&[0x80, 1, 0, 0x80, 1][..], 8));
        assert_eq!(decompress_to_vec(&column.packed()).unwrap(), [0, 1, 2, 127, 126, 0x80, 1, 0, 0x80, 1]);
    }

    /// A long column is held deflated.
    #[test]
    fn a_long_column_takes_the_memory_of_its_deflated_bytes() {
        let mut column = Column::default();
        (0..10_000_000).for_each(|value| column.unsigned(value % 100));
        assert!(column.packed.capacity() + column.plain.capacity() < 1_000_000);
        let whole = decompress_to_vec(&column.packed()).unwrap();
        assert!(whole.len() == 10_000_000 && (0..).zip(&whole).all(|(value, byte)| value % 100 == u64::from(*byte)));
    }
}
