//! Integers: fixed width and big-endian, or 7 bits per byte, low bits first.

use pmix_types::DataType;

use super::{CodecError, Problem, Reader, Writer};

/// An integer of the wire.
pub(super) trait Integer: Sized {
    fn get(reader: &mut Reader<'_>) -> Result<Self, CodecError>;
    fn put(self, writer: &mut Writer);
}

impl Integer for u8 {
    fn get(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        reader.byte()
    }
    fn put(self, writer: &mut Writer) {
        writer.byte(self);
    }
}

impl Integer for i8 {
    fn get(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        Ok(Self::from_be_bytes([reader.byte()?]))
    }
    fn put(self, writer: &mut Writer) {
        writer.byte(self.to_be_bytes()[0]);
    }
}

macro_rules! integer {
    ($($type:ident $constant:ident $to_wide:expr, $from_wide:expr;)+) => {$(
        impl Integer for $type {
            fn get(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
                if !reader.encoding().dialect.is_flexible() {
                    let bytes = reader.take(size_of::<Self>() as u64)?;
                    return Ok(bytes.iter().fold(0, |number, byte| number << 8 | Self::from(*byte)));
                }
                let start = reader.offset();
                let wide = get_flexible(reader)?;
                $from_wide(wide).try_into().map_err(|_| Problem::Range(DataType::$constant).at(start))
            }

            fn put(self, writer: &mut Writer) {
                if writer.encoding().dialect.is_flexible() {
                    put_flexible($to_wide(self.into()), writer);
                } else {
                    writer.bytes(&self.to_be_bytes());
                }
            }
        }
    )+};
}

integer! {
    u16 UINT16 same, same;
    u32 UINT32 same, same;
    u64 UINT64 same, same;
    i16 INT16 fold_sign, unfold_sign;
    i32 INT32 fold_sign, unfold_sign;
    i64 INT64 fold_sign, unfold_sign;
}

const fn same(number: u64) -> u64 {
    number
}

/// Maps small signed numbers to small unsigned ones: 0, -1, 1, -2 to 0, 1, 2, 3.
const fn fold_sign(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

const fn unfold_sign(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes that carry 7 bits; the ninth carries 8, so that 64 bits fit.
const GROUPS: u32 = 8;

fn get_flexible(reader: &mut Reader<'_>) -> Result<u64, CodecError> {
    let mut number = 0;
    for group in 0..GROUPS {
        let byte = reader.byte()?;
        number |= u64::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Ok(number | u64::from(reader.byte()?) << (7 * GROUPS))
}

fn put_flexible(mut number: u64, writer: &mut Writer) {
    for _ in 0..GROUPS {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return writer.byte(low & 0x7f);
        }
        writer.byte(low | 0x80);
    }
    let [last, ..] = number.to_le_bytes();
    writer.byte(last);
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::super::Limits;
    use super::*;
    use crate::{Dialect, Encoding};

    fn bytes<T: Integer>(dialect: Dialect, number: T) -> Vec<u8> {
        let mut writer = Writer::new(Encoding::plain(dialect));
        number.put(&mut writer);
        writer.finish().to_vec()
    }

    fn read<T: Integer>(dialect: Dialect, bytes: &[u8]) -> Result<T, CodecError> {
        T::get(&mut Reader::new(Encoding::plain(dialect), Limits::default(), bytes))
    }

    #[test]
    fn examples_of_the_notes() {
        let fixed = Dialect::V3;
        let flexible = Dialect::V41;
        assert_eq!(bytes(flexible, 1i32), [2]);
        assert_eq!(bytes(flexible, -46i32), [0x5b]);
        assert_eq!(bytes(flexible, 0xffff_fffe_u32), [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(bytes(flexible, 300u64), [0xac, 2]);
        assert_eq!(bytes(fixed, -46i32), [0xff, 0xff, 0xff, 0xd2]);
        assert_eq!(bytes(flexible, u64::MAX), [0xff; 9]);
        assert_eq!(bytes(flexible, i64::MIN), [0xff; 9]);
    }

    #[test]
    fn too_wide_numbers_are_refused() {
        // a 32-bit number sent sign-extended to 64 bits
        let wide = bytes(Dialect::V41, u64::MAX - 1);
        assert_eq!(read::<u32>(Dialect::V41, &wide).unwrap_err().problem, Problem::Range(DataType::UINT32));
        assert_eq!(read::<i16>(Dialect::V4, &bytes(Dialect::V4, 40_000i32)).unwrap_err().offset, 0);
    }

    fn round_trip<T: Integer + Copy + PartialEq + Debug>(number: T) {
        for dialect in Dialect::ALL {
            assert_eq!(read(dialect, &bytes(dialect, number)), Ok(number), "{dialect}");
        }
    }

    proptest! {
        #[test]
        fn integers_come_back(a: u16, b: i16, c: u32, d: i32, e: u64, f: i64, g: u8, h: i8, shift in 0u32..64) {
            round_trip(a);
            round_trip(b);
            round_trip(c);
            round_trip(d);
            round_trip(e);
            round_trip(f);
            round_trip(g);
            round_trip(h);
            round_trip(e >> shift);
            round_trip(f >> shift);
        }
    }
}
