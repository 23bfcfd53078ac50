#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;

use super::*;

const FIXED: Format = Format {
    prefix: "fixed-",
    suffix: ".bin",
    framing: Framing::Fixed { content: 5 },
};
const LINES: Format = Format {
    prefix: "lines-",
    suffix: ".txt",
    framing: Framing::Lines,
};

fn write(folder: &Path, format: &Format, contents: &[&str]) -> PathBuf {
    let mut writer = Writer::acquire(folder, format, 1 << 20, MaxAge::default()).unwrap();
    for content in contents {
        writer.append(content.as_bytes()).unwrap();
    }
    writer.path().to_owned()
}

/// Contents of the added records, `None` for a damaged one.
fn added(segment: &mut Segment) -> Vec<Option<String>> {
    let found = segment.read_on(|content| String::from_utf8(content.to_vec()).ok());
    found.unwrap().into_iter().map(|found| found.value).collect()
}

fn text(content: &str) -> Option<String> {
    Some(content.to_owned())
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn records_are_read_as_they_are_added() {
    for format in [FIXED, LINES] {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &format, &["first", "other"]);
        let mut segment = Segment::open(&path, &format).unwrap();
        assert_eq!(added(&mut segment), [text("first"), text("other")]);
        assert_eq!(added(&mut segment), []);
        assert_eq!(write(folder.path(), &format, &["third"]), path, "no process holds it");
        assert_eq!(added(&mut segment), [text("third")]);
        assert_eq!(segment.read_to(), fs::metadata(&path).unwrap().len());
    }
}

#[test]
fn a_record_is_read_again_where_it_was_written() {
    for format in [FIXED, LINES] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::acquire(folder.path(), &format, 1 << 20, MaxAge::default()).unwrap();
        writer.append(b"first").unwrap();
        let (offset, length) = writer.append(b"other").unwrap();
        assert_eq!(length, format.framing.record_bytes(5));
        writer.flush().unwrap();
        let segment = Segment::open(writer.path(), &format).unwrap();
        let again = |offset| read(&segment.file(), format.framing, offset, length).unwrap();
        assert_eq!(again(offset).as_deref(), Some(&b"other"[..]));
        assert_eq!(again(offset + 1), None, "not the start of a record");
        assert_eq!(again(offset + 1000), None, "past the end");
    }
}

#[test]
fn a_damaged_record_is_told_and_passed_over() {
    for format in [FIXED, LINES] {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &format, &["first", "other", "third"]);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(5).position(|part| part == b"other").unwrap();
        bytes[at] = b'O';
        fs::write(&path, bytes).unwrap();
        let mut segment = Segment::open(&path, &format).unwrap();
        assert_eq!(added(&mut segment), [text("first"), None, text("third")]);
    }
}

#[test]
fn a_record_torn_by_a_kill_waits_and_the_next_writer_removes_it() {
    for format in [FIXED, LINES] {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), &format, &["first"]);
        let whole = fs::read(&path).unwrap();
        append(&path, &whole[..whole.len() / 2]);
        let mut segment = Segment::open(&path, &format).unwrap();
        assert_eq!(added(&mut segment), [text("first")]);
        assert_eq!(added(&mut segment), [], "still torn");
        assert_eq!(write(folder.path(), &format, &["other"]), path);
        assert_eq!(added(&mut segment), [text("other")]);
    }
}

#[test]
fn a_segment_that_is_written_to_is_neither_taken_over_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let first = Writer::acquire(folder.path(), &LINES, 1 << 20, MaxAge::default()).unwrap();
    let second = Writer::acquire(folder.path(), &LINES, 1 << 20, MaxAge::default()).unwrap();
    assert_ne!(first.path(), second.path());
    assert!(!remove_unless_written(first.path()).unwrap());
    let path = first.path().to_owned();
    drop(first);
    assert!(remove_unless_written(&path).unwrap());
    assert!(!remove_unless_written(&path).unwrap(), "gone already");
    assert_eq!(paths(folder.path(), &LINES).unwrap(), [second.path()]);
}

#[test]
fn a_full_segment_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &FIXED, &["first"]);
    let room = fs::metadata(&path).unwrap().len();
    let other = Writer::acquire(folder.path(), &FIXED, room - 1, MaxAge::default()).unwrap();
    assert_ne!(other.path(), path);
    assert_eq!(
        Writer::acquire(folder.path(), &FIXED, room, MaxAge::default())
            .unwrap()
            .path(),
        path
    );
}

#[test]
fn a_content_that_would_break_the_framing_is_refused() {
    for (format, wrong) in [(FIXED, "longer"), (FIXED, "four"), (LINES, "two\nlines")] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::acquire(folder.path(), &format, 1 << 20, MaxAge::default()).unwrap();
        let error = writer.append(wrong.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        writer.append(b"right").unwrap();
        writer.flush().unwrap();
        let mut segment = Segment::open(writer.path(), &format).unwrap();
        assert_eq!(added(&mut segment), [text("right")]);
    }
}

#[test]
fn what_this_process_appended_is_passed_over_unless_something_stands_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::acquire(folder.path(), &LINES, 1 << 20, MaxAge::default()).unwrap();
    let mut segment = Segment::open(writer.path(), &LINES).unwrap();
    let (offset, length) = writer.append(b"first").unwrap();
    writer.flush().unwrap();
    assert!(segment.pass(offset, length));
    assert_eq!(added(&mut segment), []);
    writer.append(b"other").unwrap();
    let (offset, length) = writer.append(b"third").unwrap();
    writer.flush().unwrap();
    assert!(!segment.pass(offset, length), "`other` has not been read");
    assert_eq!(added(&mut segment), [text("other"), text("third")]);
}

#[test]
fn other_files_are_no_segments() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &FIXED, &["first"]);
    for other in ["lines-1.txt", "fixed-1.txt", "other.bin"] {
        fs::write(folder.path().join(other), "").unwrap();
    }
    assert_eq!(paths(folder.path(), &FIXED).unwrap(), [path]);
    let listed = list(folder.path(), &FIXED).unwrap();
    assert_eq!((listed.len(), listed[0].bytes), (1, 13));
}

#[test]
fn an_erased_record_leaves_nothing_and_the_others_stay_while_a_process_writes() {
    for format in [FIXED, LINES] {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::acquire(folder.path(), &format, 1 << 20, MaxAge::default()).unwrap();
        for content in ["first", "other", "third"] {
            writer.append(content.as_bytes()).unwrap();
        }
        writer.flush().unwrap();
        let path = writer.path().to_owned();
        let mut before = Segment::open(&path, &format).unwrap();
        let found = before.read_on(|content| Some(content.to_vec())).unwrap();
        let unwanted = |content: &[u8]| content == b"other";
        let holds = |text: &[u8]| fs::read(&path).unwrap().windows(text.len()).any(|part| part == text);
        let counted = erase(&path, &format, Mode::Count, unwanted).unwrap();
        assert!(counted.records == 1 && holds(b"other"), "it is only counted");
        assert_eq!(erase(&path, &format, Mode::Erase, unwanted).unwrap(), counted);
        assert!(!holds(b"other") && holds(b"first") && holds(b"third"));
        assert_eq!(
            erase(&path, &format, Mode::Erase, unwanted).unwrap(),
            Erasure::default()
        );
        // A reader that knew the record finds that it has changed, and that the others have not
        // moved.
        let again: Vec<bool> = found
            .iter()
            .map(|one| before.read(one.offset, one.length).unwrap().is_some())
            .collect();
        assert_eq!(again, [true, false, true]);
        writer.append(b"later").unwrap();
        writer.flush().unwrap();
        assert_eq!(added(&mut before), [text("later")]);
        let mut new = Segment::open(&path, &format).unwrap();
        assert_eq!(added(&mut new), [text("first"), text("third"), text("later")]);
    }
}

#[test]
fn a_wiped_segment_is_gone_or_empty_where_a_process_writes_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &FIXED, &["first"]);
    wipe(&path).unwrap();
    assert!(!path.exists());
    wipe(&path).unwrap();
    let mut writer = Writer::acquire(folder.path(), &FIXED, 1 << 20, MaxAge::default()).unwrap();
    writer.append(b"first").unwrap();
    writer.flush().unwrap();
    wipe(writer.path()).unwrap();
    assert!(fs::read(writer.path()).unwrap().iter().all(|byte| *byte == 0));
    writer.append(b"later").unwrap();
    writer.flush().unwrap();
    let mut segment = Segment::open(writer.path(), &FIXED).unwrap();
    assert_eq!(added(&mut segment), [text("later")]);
}
