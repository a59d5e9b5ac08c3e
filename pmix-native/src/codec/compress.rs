//! Compressed contents: four bytes with the original length, in the sender's byte order, and a zlib stream.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::Problem;

const HEADER: usize = 4;

/// Compresses as the C library does, level 9.
pub(super) fn compress(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut encoder = ZlibEncoder::new(length.to_ne_bytes().to_vec(), Compression::best());
    // writing to memory cannot fail
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// Decompresses contents of at most `left` bytes, from which it subtracts what the stream gives, valid or not. Memory grows with that.
pub(super) fn expand(packed: &[u8], left: &mut usize) -> Result<Vec<u8>, Problem> {
    let limit = *left;
    let (header, stream) = packed.split_first_chunk::<HEADER>().ok_or(Problem::Compressed)?;
    let lengths = [u32::from_le_bytes(*header), u32::from_be_bytes(*header)].map(|length| length as usize);
    let most =
        lengths.into_iter().filter(|length| *length <= limit).max().ok_or(Problem::Expansion(limit))?;
    let mut content = Vec::new();
    // one byte too many shows that the stream is longer than its length field says
    let read = ZlibDecoder::new(stream).take(most as u64 + 1).read_to_end(&mut content);
    *left = limit.saturating_sub(content.len());
    match read {
        Ok(length) if lengths.contains(&length) => Ok(content),
        Ok(length) if length > most && lengths.iter().any(|length| *length > limit) => {
            Err(Problem::Expansion(limit))
        }
        _ => Err(Problem::Compressed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_comes_back_whatever_the_byte_order() {
        let text = "node".repeat(2000);
        let mut packed = compress(text.as_bytes());
        assert!(packed.len() < 200);
        assert_eq!(expand(&packed, &mut 8000).unwrap(), text.as_bytes());
        packed[..HEADER].reverse();
        assert_eq!(expand(&packed, &mut 8000).unwrap(), text.as_bytes());
        assert_eq!(expand(&packed, &mut 7999), Err(Problem::Expansion(7999)));
    }

    #[test]
    fn bombs_and_broken_streams_are_refused() {
        let bomb = compress(&vec![0; 10 << 20]);
        assert!(bomb.len() < 11_000);
        let mut left = 12 << 20;
        assert!(expand(&bomb, &mut left).is_ok());
        assert_eq!(left, 2 << 20);
        // what is not valid counts, too
        let mut left = 20 << 20;
        assert!(expand(&bomb[..bomb.len() / 2], &mut left).is_err());
        assert!(left < 16 << 20, "{left}");
        assert_eq!(expand(&bomb, &mut (1 << 20)), Err(Problem::Expansion(1 << 20)));
        // a bomb with a small length field
        let mut liar = bomb.clone();
        liar[..HEADER].copy_from_slice(&100u32.to_le_bytes());
        assert!(expand(&liar, &mut (1 << 20)).is_err());
        assert_eq!(expand(&liar, &mut (2 << 30)), Err(Problem::Compressed));
        assert_eq!(expand(&bomb[..bomb.len() / 2], &mut (20 << 20)), Err(Problem::Compressed));
        assert_eq!(expand(&bomb[..3], &mut (20 << 20)), Err(Problem::Compressed));
    }
}
