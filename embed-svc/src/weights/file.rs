//! A file of tensors, read and never memory-mapped. If a mapped file is truncated the process ends
//! (SIGBUS), while a read returns an error.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    time::SystemTime,
};

use parking_lot::Mutex;
use safetensors::{SafeTensorError, tensor::Metadata};

/// Size of the header's length field in bytes.
const LENGTH: usize = size_of::<u64>();
/// Maximum size of the header, as in the safetensors library.
const LARGEST_HEADER: usize = 100_000_000;

/// An open file. Its contents stay readable if another file takes its name.
#[derive(Debug)]
pub(super) struct TensorFile {
    pub(super) path: PathBuf,
    file: Mutex<File>,
    state: State,
}

/// Metadata that shows whether a file was written to.
#[derive(Debug, PartialEq, Eq)]
struct State {
    size: u64,
    modified: Option<SystemTime>,
}

impl State {
    fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            size: found.len(),
            modified: found.modified().ok(),
        })
    }
}

/// Why a file cannot be opened.
#[derive(Debug)]
pub(super) enum OpenError {
    Unreadable(io::Error),
    Broken(SafeTensorError),
}

impl TensorFile {
    /// Opens a file and reads its header. The data begin at the returned offset. Also checks that
    /// the data are complete and that no tensor reaches beyond them.
    pub(super) fn open(path: &Path) -> Result<(Self, usize, Metadata), OpenError> {
        let mut file = isomer_models::regular::open(path).map_err(OpenError::Unreadable)?;
        let state = State::of(&file).map_err(OpenError::Unreadable)?;
        let size = state.size;
        let mut length = [0; LENGTH];
        file.read_exact(&mut length)
            .map_err(|_| OpenError::Broken(SafeTensorError::HeaderTooSmall))?;
        let length = usize::try_from(u64::from_le_bytes(length))
            .ok()
            .filter(|length| *length <= LARGEST_HEADER)
            .ok_or(OpenError::Broken(SafeTensorError::HeaderTooLarge))?;
        if (length + LENGTH) as u64 > size {
            return Err(OpenError::Broken(SafeTensorError::InvalidHeaderLength));
        }
        let mut header = vec![0; length];
        file.read_exact(&mut header)
            .map_err(|_| OpenError::Broken(SafeTensorError::InvalidHeaderLength))?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| OpenError::Broken(SafeTensorError::InvalidHeaderDeserialization(error)))?;
        let start = length + LENGTH;
        // Reading the header has checked that tensors are contiguous and that each matches the size
        // of its shape.
        let end = metadata
            .tensors()
            .values()
            .map(|info| info.data_offsets.1)
            .max()
            .unwrap_or(0);
        if start.checked_add(end).map(|end| end as u64) != Some(size) {
            return Err(OpenError::Broken(SafeTensorError::MetadataIncompleteBuffer));
        }
        let file = Self {
            path: path.to_path_buf(),
            file: Mutex::new(file),
            state,
        };
        Ok((file, start, metadata))
    }

    /// Reads these bytes of the file. Fails if the file was written to since it was opened, because
    /// the bytes could be another model's.
    pub(super) fn read(&self, bytes: Range<usize>, into: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock();
        file.seek(SeekFrom::Start(bytes.start as u64))?;
        file.read_exact(into)?;
        if State::of(&file)? == self.state {
            Ok(())
        } else {
            Err(io::Error::other("the file was written to after it was opened"))
        }
    }
}
