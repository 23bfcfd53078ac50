//! Segments: blobs that list digests.

use isomer_blobs::{BlobRead, BlobStore};
use serde::{Deserialize, Serialize};

use crate::{
    RetentionError,
    digest::{BYTES, Digest},
};

/// The format of the header.
const FORMAT: &str = "isomer.digests/1";

/// Digests, with the names of the segments that this one repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) digests: Vec<Digest>,
    /// Names of segments that are obsolete, because this one contains all their digests.
    pub(crate) replaces: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replaces: Vec<String>,
}

impl Segment {
    /// The encoded segment: a line of JSON, then the digests.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let header = Header {
            format: FORMAT.to_owned(),
            replaces: self.replaces.clone(),
        };
        // A header of strings can always be serialised.
        let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend(self.digests.iter().flat_map(|digest| digest.bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no header")?;
        let header: Header = serde_json::from_slice(&bytes[..end]).map_err(|error| error.to_string())?;
        if header.format != FORMAT {
            return Err(format!(
                "its format is `{}`, this version reads `{FORMAT}`",
                header.format
            ));
        }
        let (digests, []) = bytes[end + 1..].as_chunks::<BYTES>() else {
            return Err("its last digest is cut".to_owned());
        };
        Ok(Self {
            digests: digests.iter().copied().map(Digest::from).collect(),
            replaces: header.replaces,
        })
    }

    /// Reads a segment; `None` if it is gone.
    ///
    /// # Errors
    /// If the store fails, or if the blob is not a segment in a format that this version reads. The
    /// blob is kept: if it counted as absent, its listed digests could be removed.
    pub(crate) async fn read(blobs: &BlobStore, name: &str) -> Result<Option<Self>, RetentionError> {
        let unreadable = |why: String| RetentionError::Unreadable {
            name: name.to_owned(),
            url: blobs.url().to_owned(),
            why,
        };
        match blobs.read(name).await? {
            BlobRead::Absent => Ok(None),
            BlobRead::Damaged => Err(unreadable("its bytes do not match their digest".to_owned())),
            BlobRead::Body(bytes) => Self::decode(&bytes).map(Some).map_err(unreadable),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_segment_comes_back_and_what_is_none_is_refused_with_its_reason() {
        let segment = Segment {
            digests: vec![Digest::from([1; 32]), Digest::from([b'\n'; 32])],
            replaces: vec!["runs/x/refs/1".to_owned()],
        };
        let bytes = segment.encode();
        assert_eq!(Segment::decode(&bytes).unwrap(), segment);
        assert_eq!(
            Segment::decode(&Segment::default().encode()).unwrap(),
            Segment::default()
        );
        for (bytes, says) in [
            (&bytes[..bytes.len() - 1], "cut"),
            (b"{}", "no header"),
            (b"{}\n", "format"),
            (b"{\"format\":\"isomer.digests/2\"}\n", "isomer.digests/2"),
        ] {
            let error = Segment::decode(bytes).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
