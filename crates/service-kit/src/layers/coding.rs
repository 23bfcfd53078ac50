//! Compression of gRPC messages.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::{GzDecoder, GzEncoder};
use http::{HeaderMap, HeaderName, HeaderValue};

use isomer_fault::Fault;

use crate::budget::{PEAK_FACTOR, Reservation};

pub(super) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
pub(super) const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,gzip,zstd");

/// Every message may decompress to this many bytes, however small its compressed form.
const FREE: usize = 1 << 20;
/// Beyond [`FREE`], a message may decompress to at most this many bytes per compressed byte.
const RATIO: usize = 128;

/// Bytes that are decompressed at once.
const PIECE: usize = 64 << 10;

/// A compression that the server accepts and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    pub(super) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The compression of a request's messages.
    pub(super) fn of_request(headers: &HeaderMap) -> Result<Option<Self>, Fault> {
        let Some(value) = headers.get(ENCODING) else {
            return Ok(None);
        };
        match value.to_str() {
            Ok("identity") => Ok(None),
            Ok(name) if let Some(coding) = Self::named(name) => Ok(Some(coding)),
            _ => Err(Fault::new(
                tonic::Code::Unimplemented,
                "UNSUPPORTED_ENCODING",
                format!("the request's messages are compressed as {value:?}"),
            )
            .field("grpc-encoding")
            .hint("use gzip, zstd or identity")),
        }
    }

    /// The compression of the answer: zstd if the caller accepts it, else gzip if the caller
    /// accepts that.
    pub(super) fn for_answer(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(ACCEPT_ENCODING).iter();
        let names = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        names
            .filter_map(|name| Self::named(name.trim()))
            .max_by_key(|coding| *coding == Self::Zstd)
    }

    /// Maximum decompressed size of a compressed message of `packed` bytes.
    fn bound(packed: usize, most: usize) -> usize {
        packed.saturating_mul(RATIO).max(FREE).min(most)
    }

    /// Decompresses a message to at most `most` bytes. Its memory is reserved as it grows.
    pub(crate) fn unpack(self, packed: &[u8], most: usize, memory: Option<&Reservation>) -> Result<Bytes, Fault> {
        let broken = |error: io::Error| {
            Fault::invalid(
                "grpc-encoding",
                format!("a message of the request cannot be decompressed: {error}"),
            )
            .hint("compress each message in the way that grpc-encoding names")
        };
        let bound = Self::bound(packed.len(), most);
        let mut reader: Box<dyn Read> = match self {
            Self::Gzip => Box::new(GzDecoder::new(packed)),
            Self::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed).map_err(broken)?;
                // Largest window that a frame may require the decoder to keep: 8 MiB, which every
                // decoder must support.
                decoder.window_log_max(23).map_err(broken)?;
                Box::new(decoder)
            }
        };
        let (mut out, mut piece) = (Vec::new(), vec![0; PIECE]);
        // One piece beyond the bound shows that the message is too large.
        while out.len() <= bound {
            let read = match reader.read(&mut piece) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(broken)?,
            };
            if let Some(memory) = memory {
                let plain = (out.len() + read).min(bound);
                memory.grow_to(packed.len().max(plain).saturating_mul(PEAK_FACTOR))?;
            }
            out.extend_from_slice(&piece[..read]);
        }
        if out.len() <= bound {
            return Ok(out.into());
        }
        let fault = Fault::new(
            tonic::Code::ResourceExhausted,
            "REQUEST_TOO_LARGE",
            format!("a message of {} compressed bytes holds more than {bound}", packed.len()),
        );
        Err(if bound == most {
            fault.hint("send fewer texts in one request")
        } else {
            fault.hint("send it uncompressed: so high a compression ratio is refused as a possible attack")
        })
    }

    /// Compresses for speed rather than size.
    pub(super) fn pack(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip => {
                let mut out = Vec::new();
                GzEncoder::new(plain, flate2::Compression::fast()).read_to_end(&mut out)?;
                Ok(out)
            }
            Self::Zstd => zstd::encode_all(plain, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{LimitsConfig, budget::Budget};

    const MOST: usize = 8 << 20;

    #[test]
    fn what_was_packed_is_unpacked() {
        let plain: Vec<u8> = (0..2_000_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
        for coding in [Coding::Gzip, Coding::Zstd] {
            let text = b"the same sentence in other words".as_slice();
            assert_eq!(coding.unpack(&coding.pack(text).unwrap(), MOST, None).unwrap(), text);
            let packed = coding.pack(&plain).unwrap();
            assert!(packed.len() < plain.len() / 2);
            assert!(coding.unpack(b"neither one nor the other", MOST, None).is_err());
        }
    }

    #[test]
    fn a_bomb_goes_off_at_its_ratio_and_at_the_largest_message() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let packed = coding.pack(&vec![0; 64 << 20]).unwrap();
            let fault = coding.unpack(&packed, MOST, None).unwrap_err();
            assert_eq!(fault.reason, "REQUEST_TOO_LARGE", "{coding:?}: {fault}");
            let small = coding.pack(&vec![0; 1 << 20]).unwrap();
            assert_eq!(
                coding.unpack(&small, MOST, None).unwrap().len(),
                1 << 20,
                "a mebibyte of anything is taken"
            );
        }
        assert_eq!(Coding::bound(10, MOST), FREE);
        assert_eq!(Coding::bound(20_000, MOST), 20_000 * RATIO);
        assert_eq!(Coding::bound(1 << 20, MOST), MOST);
    }

    #[test]
    fn memory_is_reserved_while_a_message_is_decompressed() {
        let budget = Budget::new(&LimitsConfig {
            max_message_bytes: 1 << 20,
            max_bytes_in_flight: 4 << 20,
            ..LimitsConfig::default()
        });
        for coding in [Coding::Gzip, Coding::Zstd] {
            let packed = coding.pack(&vec![0; 900 << 10]).unwrap();
            let (first, second) = (budget.reserve(None), budget.reserve(None));
            assert!(coding.unpack(&packed, MOST, Some(&first)).is_ok());
            assert!(budget.reserved() >= PEAK_FACTOR * (900 << 10), "{coding:?}");
            let fault = coding.unpack(&packed, MOST, Some(&second)).unwrap_err();
            assert_eq!(fault.code, tonic::Code::ResourceExhausted, "{coding:?}: {fault}");
        }
    }

    #[test]
    fn the_caller_says_what_it_takes() {
        let answer = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            Coding::for_answer(&headers)
        };
        assert_eq!(answer("identity,deflate, gzip"), Some(Coding::Gzip));
        assert_eq!(answer("gzip, zstd"), Some(Coding::Zstd));
        assert_eq!(answer("identity"), None);
        assert_eq!(Coding::for_answer(&HeaderMap::new()), None);
    }
}
