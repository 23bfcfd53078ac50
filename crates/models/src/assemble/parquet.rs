//! Reads the single string column of a Parquet file that stores a data frame's index: flat, without
//! nulls, plain or dictionary-encoded, uncompressed or in Snappy, data pages of the first form.
//! (Apache Parquet format 2.x, with its metadata in Thrift's compact protocol; Snappy's raw
//! format.) Anything else is refused, and the error names it.
//!
//! The `parquet` crate, which reads data sets elsewhere, is not used here. It trusts the sizes in a
//! file, while this reader bounds its allocations by the size of the file. Also, embed-svc is built
//! with this crate and needs no other part of Parquet.

use std::collections::BTreeMap;

/// Maximum number of words per byte of a file. The words of an index are distinct, so each takes
/// bytes of its own.
const WORDS_PER_BYTE: usize = 8;
/// Maximum bytes of words, and of unpacked pages, per byte of a file. Snappy packs 64 bytes into
/// three.
const UNPACKED_PER_BYTE: usize = 64;
const TOO_MANY: &str = "it says that it holds more than a file of its size can hold";

/// The words read so far, and the remaining allowance.
struct Words {
    all: Vec<String>,
    most: usize,
    bytes_left: usize,
    unpacked_left: usize,
}

impl Words {
    fn of(file: &[u8]) -> Self {
        Self {
            all: Vec::new(),
            most: file.len().saturating_mul(WORDS_PER_BYTE),
            bytes_left: file.len().saturating_mul(UNPACKED_PER_BYTE),
            unpacked_left: file.len().saturating_mul(UNPACKED_PER_BYTE),
        }
    }

    /// Refuses `count` more words before memory is allocated for them.
    fn check_more(&self, count: usize) -> Result<(), String> {
        if count > self.most - self.all.len() {
            return Err(TOO_MANY.into());
        }
        Ok(())
    }

    /// Refuses that many more bytes of pages before they are unpacked.
    fn unpack(&mut self, bytes: usize) -> Result<(), String> {
        self.unpacked_left = self.unpacked_left.checked_sub(bytes).ok_or(TOO_MANY)?;
        Ok(())
    }

    fn push(&mut self, word: String) -> Result<(), String> {
        self.check_more(1)?;
        self.bytes_left = self.bytes_left.checked_sub(word.len()).ok_or(TOO_MANY)?;
        self.all.push(word);
        Ok(())
    }
}

/// Reads the column.
///
/// # Errors
/// A description of invalid or unsupported content.
pub(crate) fn strings(file: &[u8]) -> Result<Vec<String>, String> {
    const MAGIC: &[u8] = b"PAR1";
    let tail = file.len().checked_sub(8).filter(|_| file.starts_with(MAGIC));
    let (Some(tail), true) = (tail, file.ends_with(MAGIC)) else {
        return Err("it is not a Parquet file, or it is truncated".into());
    };
    let length = u32::from_le_bytes([file[tail], file[tail + 1], file[tail + 2], file[tail + 3]]) as usize;
    let footer = tail.checked_sub(length).ok_or("its footer is longer than the file")?;
    let meta = Reader::new(&file[footer..tail]).structure(0)?;
    let schema = meta.list(2)?;
    let [_, leaf] = schema else {
        return Err(format!(
            "it has {} columns, expected one",
            schema.len().saturating_sub(1)
        ));
    };
    let optional = match leaf.field(3)?.int()? {
        0 => false,
        1 => true,
        _ => return Err("its column repeats".into()),
    };
    let mut words = Words::of(file);
    for group in meta.list(4)? {
        let [column] = group.list(1)? else {
            return Err("a row group has not one column".into());
        };
        chunk(file, column.field(3)?, optional, &mut words)?;
    }
    if words.all.len() != meta.field(3)?.size()? {
        return Err("it holds another number of rows than it says".into());
    }
    Ok(words.all)
}

/// The pages of one column chunk.
fn chunk(file: &[u8], meta: &Value, optional: bool, words: &mut Words) -> Result<(), String> {
    const BYTE_ARRAY: i64 = 6;
    if meta.field(1)?.int()? != BYTE_ARRAY {
        return Err("its column does not hold strings".into());
    }
    let codec = meta.field(4)?.int()?;
    let wanted = meta.field(5)?.size()?;
    let data = meta.field(9)?.size()?;
    let start = meta
        .field(11)
        .and_then(Value::size)
        .map_or(data, |dictionary| dictionary.min(data));
    let end = start
        .checked_add(meta.field(7)?.size()?)
        .filter(|&end| end <= file.len())
        .ok_or("a column chunk ends beyond the file")?;
    let mut rest = &file[start..end];
    let mut dictionary: Vec<String> = Vec::new();
    let before = words.all.len();
    words.check_more(wanted)?;
    while words.all.len() - before < wanted {
        let mut reader = Reader::new(rest);
        let header = reader.structure(0)?;
        let body = reader.rest();
        let (packed, length) = (header.field(3)?.size()?, header.field(2)?.size()?);
        let body_here = body.get(..packed).ok_or("a page ends beyond its chunk")?;
        let page = match codec {
            0 => {
                words.unpack(packed)?;
                body_here.to_vec()
            }
            1 => {
                words.unpack(length)?;
                snappy(body_here, length)?
            }
            other => return Err(format!("compression number {other} is not read")),
        };
        match header.field(1)?.int()? {
            0 => data_page(&page, header.field(5)?, optional, &dictionary, words)?,
            2 => dictionary = plain(&page, header.field(7)?.field(1)?.size()?)?,
            other => return Err(format!("page type {other} is not read")),
        }
        rest = &body[packed..];
    }
    Ok(())
}

fn data_page(
    page: &[u8],
    header: &Value,
    optional: bool,
    dictionary: &[String],
    words: &mut Words,
) -> Result<(), String> {
    let count = header.field(1)?.size()?;
    words.check_more(count)?;
    let mut page = page;
    if optional {
        let (length, rest) = page.split_first_chunk::<4>().ok_or(SHORT)?;
        let length = u32::from_le_bytes(*length) as usize;
        let levels = hybrid(rest.get(..length).ok_or(SHORT)?, 1, count)?;
        if levels.contains(&0) {
            return Err("its column has nulls".into());
        }
        page = &rest[length..];
    }
    match header.field(2)?.int()? {
        0 => plain(page, count)?.into_iter().try_for_each(|word| words.push(word))?,
        2 | 8 => {
            let (&width, rest) = page.split_first().ok_or(SHORT)?;
            for index in hybrid(rest, u32::from(width), count)? {
                let word = dictionary
                    .get(index as usize)
                    .ok_or("a page leads beyond its dictionary")?;
                words.push(word.clone())?;
            }
        }
        other => return Err(format!("encoding number {other} is not read")),
    }
    Ok(())
}

const SHORT: &str = "a page is shorter than it says";

/// Strings, each preceded by its length.
fn plain(mut page: &[u8], count: usize) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, rest) = page.split_first_chunk::<4>().ok_or(SHORT)?;
        let length = u32::from_le_bytes(*length) as usize;
        let word = rest.get(..length).ok_or(SHORT)?;
        words.push(
            std::str::from_utf8(word)
                .map_err(|_| "a string is not UTF-8")?
                .to_owned(),
        );
        page = &rest[length..];
    }
    Ok(words)
}

/// The hybrid of run lengths and bit packing: `count` numbers of `width` bits.
fn hybrid(data: &[u8], width: u32, count: usize) -> Result<Vec<u32>, String> {
    if width > 32 {
        return Err("a page packs numbers of more than 32 bits".into());
    }
    let mut reader = Reader::new(data);
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let head = reader.varint()?;
        let left = count - numbers.len();
        if head & 1 == 0 {
            let mut bytes = [0; 4];
            for byte in bytes.iter_mut().take(width.div_ceil(8) as usize) {
                *byte = reader.byte()?;
            }
            let times = usize::try_from(head >> 1).unwrap_or(usize::MAX);
            numbers.extend(std::iter::repeat_n(u32::from_le_bytes(bytes), times.min(left)));
            if times == 0 {
                return Err("a page has a run of no numbers".into());
            }
        } else {
            let bytes = reader.take(
                usize::try_from(head >> 1)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(width as usize),
            )?;
            let bit = |place: usize| u32::from(bytes[place / 8] >> (place % 8) & 1);
            let groups = if width == 0 {
                left
            } else {
                bytes.len() * 8 / width as usize
            };
            numbers.extend(
                (0..groups.min(left))
                    .map(|i| (0..width as usize).fold(0, |number, b| number | bit(i * width as usize + b) << b)),
            );
            if groups == 0 {
                return Err("a page has a run of no numbers".into());
            }
        }
    }
    Ok(numbers)
}

/// Decompresses Snappy's raw format.
fn snappy(data: &[u8], expected: usize) -> Result<Vec<u8>, String> {
    const BAD: &str = "a page is not sound Snappy";
    let mut reader = Reader::new(data);
    if reader.varint()? != expected as u64 {
        return Err(BAD.into());
    }
    let mut out: Vec<u8> = Vec::new();
    while out.len() < expected {
        let tag = usize::from(reader.byte()?);
        let mut number = |bytes: usize| {
            (0..bytes).try_fold(0usize, |number, i| {
                Ok::<_, String>(number | usize::from(reader.byte()?) << (8 * i))
            })
        };
        let (length, back) = match tag & 3 {
            0 => {
                let length = match tag >> 2 {
                    short @ 0..60 => short,
                    long => number(long - 59)?,
                } + 1;
                if out.len() + length > expected {
                    return Err(BAD.into());
                }
                out.extend_from_slice(reader.take(length)?);
                continue;
            }
            1 => ((tag >> 2 & 7) + 4, (tag >> 5) << 8 | number(1)?),
            2 => ((tag >> 2) + 1, number(2)?),
            _ => ((tag >> 2) + 1, number(4)?),
        };
        if back == 0 || back > out.len() || out.len() + length > expected {
            return Err(BAD.into());
        }
        for _ in 0..length {
            out.push(out[out.len() - back]);
        }
    }
    if out.len() == expected {
        Ok(out)
    } else {
        Err(BAD.into())
    }
}

/// A value of Thrift's compact protocol. Kinds that the metadata do not need are read as `Other`.
#[derive(Debug)]
enum Value {
    Int(i64),
    List(Vec<Value>),
    Struct(BTreeMap<i64, Value>),
    Other,
}

impl Value {
    fn field(&self, id: i64) -> Result<&Self, String> {
        match self {
            Self::Struct(fields) => fields.get(&id).ok_or_else(|| format!("its metadata lacks field {id}")),
            _ => Err(MALFORMED.into()),
        }
    }

    fn list(&self, id: i64) -> Result<&[Self], String> {
        match self.field(id)? {
            Self::List(values) => Ok(values),
            _ => Err(MALFORMED.into()),
        }
    }

    fn int(&self) -> Result<i64, String> {
        match self {
            Self::Int(value) => Ok(*value),
            _ => Err(MALFORMED.into()),
        }
    }

    fn size(&self) -> Result<usize, String> {
        usize::try_from(self.int()?).map_err(|_| MALFORMED.into())
    }
}

const MALFORMED: &str = "its metadata is malformed";

struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self { data }
    }

    fn rest(self) -> &'a [u8] {
        self.data
    }

    fn byte(&mut self) -> Result<u8, String> {
        let (&byte, rest) = self.data.split_first().ok_or(SHORT)?;
        self.data = rest;
        Ok(byte)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.data.split_at_checked(count).ok_or(SHORT)?;
        self.data = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MALFORMED.into())
    }

    fn zigzag(&mut self) -> Result<i64, String> {
        let value = self.varint()?;
        #[allow(clippy::cast_possible_wrap)]
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn structure(&mut self, depth: usize) -> Result<Value, String> {
        let (mut fields, mut id) = (BTreeMap::new(), 0i64);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(Value::Struct(fields));
            }
            id = match i64::from(head >> 4) {
                0 => self.zigzag()?,
                step => id.checked_add(step).ok_or(MALFORMED)?,
            };
            let value = self.value(head & 0xf, true, depth)?;
            fields.insert(id, value);
        }
    }

    fn value(&mut self, kind: u8, in_struct: bool, depth: usize) -> Result<Value, String> {
        if depth > 32 {
            return Err(MALFORMED.into());
        }
        Ok(match kind {
            // For a Boolean field, the type contains the value.
            1 | 2 if in_struct => Value::Other,
            1..=3 => {
                self.byte()?;
                Value::Other
            }
            4..=6 => Value::Int(self.zigzag()?),
            7 => {
                self.take(8)?;
                Value::Other
            }
            8 => {
                let length = self.varint()?;
                self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
                Value::Other
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    short => u64::from(short),
                };
                let values = (0..count).map(|_| self.value(head & 0xf, false, depth + 1));
                Value::List(values.collect::<Result<_, _>>()?)
            }
            12 => self.structure(depth + 1)?,
            _ => return Err(MALFORMED.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// 300 words, 40 of them different, written by pyarrow 25 (`fixtures/make_words.py`): Snappy,
    /// dictionary pages, nullable.
    const WORDS: &[u8] = include_bytes!("../../fixtures/words.parquet");

    #[test]
    fn a_string_column_written_by_pyarrow_is_read() {
        let words = strings(WORDS).unwrap();
        assert_eq!(words.len(), 300);
        for (i, word) in words.iter().enumerate() {
            assert_eq!(*word, format!("wörd-{}", (i * i + 3 * i) % 97));
        }
    }

    /// A file of one row group with these pages, whose footer claims `rows` rows.
    fn file(pages: &[u8], rows: u64) -> Vec<u8> {
        let number = |value: u64| {
            let mut value = value << 1;
            let mut out = Vec::new();
            while value > 0x7f {
                out.push((value & 0x7f) as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
            out
        };
        let field = |step: u8, value: u64| [vec![step << 4 | 6], number(value)].concat();
        // The column: type, codec, values, compressed size, offset of the data.
        let column = [
            field(1, 6),
            field(3, 0),
            field(1, rows),
            field(2, pages.len() as u64),
            field(2, 4),
            vec![0],
        ]
        .concat();
        let group = [&[0x19, 0x1c, 0x3c], &column[..], &[0, 0]].concat();
        // A schema of a root and an optional leaf, the number of rows, the row group.
        let schema = [&[0x29, 0x2c, 0][..], &field(3, 1), &[0]].concat();
        let meta = [&schema[..], &field(1, rows), &[0x19, 0x1c], &group, &[0]].concat();
        let length = (meta.len() as u32).to_le_bytes();
        [b"PAR1", pages, &meta, &length, b"PAR1"].concat()
    }

    /// A page of a column without nulls that claims to contain `count` values, all of them the
    /// first of an empty dictionary.
    fn page(count: u64) -> Vec<u8> {
        let mut varint = Vec::new();
        let mut rest = count << 1;
        while rest > 0x7f {
            varint.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        varint.push(rest as u8);
        // A run of ones as definition levels, then width 0.
        let levels = [&varint[..], &[1]].concat();
        let body = [&(levels.len() as u32).to_le_bytes()[..], &levels, &[0], &varint].concat();
        let size = (body.len() as u8) << 1;
        let head = [
            &[0x15, 0, 0x15, size, 0x15, size, 0x2c, 0x15],
            &varint[..],
            &[0x15, 4, 0, 0],
        ]
        .concat();
        [head, body].concat()
    }

    #[test]
    fn a_count_that_no_file_of_the_size_can_hold_is_refused_before_memory_is_taken() {
        for count in [1 << 20, 1 << 40, 1 << 60] {
            let error = strings(&file(&page(count), count)).unwrap_err();
            assert!(error.contains("more than a file of its size can hold"), "{error}");
        }
        // With a true count, the same file is read up to the dictionary.
        let error = strings(&file(&page(2), 2)).unwrap_err();
        assert!(error.contains("beyond its dictionary"), "{error}");
    }

    #[test]
    fn field_numbers_do_not_overflow() {
        // Field number i64::MAX, written in full, then one more.
        let meta = [&[0x06, 0xfe][..], &[0xff; 8], &[1, 0, 0x16, 0, 0]].concat();
        let length = (meta.len() as u32).to_le_bytes();
        let file = [b"PAR1", &meta[..], &length, b"PAR1"].concat();
        assert!(strings(&file).is_err());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_never_a_panic() {
        for cut in (0..WORDS.len()).step_by(7) {
            assert!(strings(&WORDS[..cut]).is_err());
        }
        for place in 0..WORDS.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = WORDS.to_vec();
                damaged[place] = value;
                let _ = strings(&damaged);
            }
        }
    }
}
