use lab::Size;
use warmfront::parse_size;

use crate::failure::{Failure, Result};

/// Reads a size: `5%` of what is asked for, `512M`, or `1000b` for so many blocks.
pub(super) fn parse(text: &str) -> Result<Size> {
    let failed = || {
        Failure::usage(format!(
            "`{text}` is not a size of a cache; write a share such as 5%, bytes such as 512M, or \
             blocks such as 1000b"
        ))
    };
    let size = if let Some(percent) = text.strip_suffix('%') {
        Size::Fraction(percent.trim().parse::<f64>().map_err(|_| failed())? / 100.0)
    } else if let Some(Ok(blocks)) = text.strip_suffix('b').map(str::parse) {
        Size::Blocks(blocks)
    } else {
        Size::Bytes(parse_size(text).map_err(|_| failed())?)
    };
    let exists = match size {
        Size::Fraction(fraction) => fraction > 0.0 && fraction.is_finite(),
        Size::Bytes(count) | Size::Blocks(count) => count > 0,
    };
    if exists { Ok(size) } else { Err(failed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_bytes_and_blocks() {
        let read = |text| parse(text).expect("it is a size");
        assert_eq!(read("5%"), Size::Fraction(0.05));
        assert_eq!(read("150%"), Size::Fraction(1.5));
        assert_eq!(read("512M"), Size::Bytes(512 << 20));
        assert_eq!(read("4096"), Size::Bytes(4096));
        assert_eq!(read("4096B"), Size::Bytes(4096));
        assert_eq!(read("4096b"), Size::Blocks(4096));
        for text in ["", "0", "0%", "-1%", "nan%", "inf%", "0b", "b", "5%%", "1x", "1.5b2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
