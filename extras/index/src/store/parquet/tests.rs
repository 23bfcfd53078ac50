//! A folder to which runs write and are killed.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::mark::test_mark;

fn row(key: &str, digest: &str, first: f32) -> Row {
    Row {
        additional: Additional::default(),
        key: key.to_owned(),
        document: key.to_owned(),
        digest: digest.to_owned(),
        text: None,
        payload: serde_json::Map::new(),
        vector: vec![first, 0.0, 1.0],
    }
}

/// A run that ends without its last step.
async fn opened(path: &Path) -> Folder {
    let mut folder = Folder::new(path.to_owned());
    folder.file_rows = 2;
    folder.create(&test_mark("s")).await.unwrap();
    folder
}

async fn seen(folder: &Folder) -> Vec<(String, String)> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let page = folder.scan(from.as_deref()).await.unwrap();
        found.extend(page.rows.into_iter().map(|row| (row.key, row.digest)));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    found.sort();
    found
}

fn pairs(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter()
        .map(|(key, digest)| ((*key).to_owned(), (*digest).to_owned()))
        .collect()
}

#[tokio::test]
async fn the_later_file_holds_after_a_kill_and_the_next_run_removes_what_does_not() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("v");
    let folder = opened(&path).await;
    folder
        .write(&[row("a", "1", 1.0), row("b", "1", 1.0)], &[])
        .await
        .unwrap();
    folder
        .write(&[row("a", "2", 2.0), row("c", "1", 1.0)], &[])
        .await
        .unwrap();
    // Not written yet when the process ends.
    folder.write(&[row("d", "1", 1.0)], &["b".to_owned()]).await.unwrap();
    fs::write(path.join(".writing-x.tmp"), "half a file").unwrap();
    drop(folder);
    let folder = opened(&path).await;
    assert!(!path.join(".writing-x.tmp").exists());
    assert_eq!(
        seen(&folder).await,
        pairs(&[("a", "1"), ("a", "2"), ("b", "1"), ("c", "1")])
    );
    let of = folder.rows_of(&["a".to_owned(), "d".to_owned()]).await.unwrap();
    assert_eq!(of.iter().map(|row| row.digest.as_str()).collect::<Vec<_>>(), ["2"]);
    let vectors = folder.vectors(&["a".to_owned()]).await.unwrap();
    assert_eq!(vectors[0].vector, [2.0, 0.0, 1.0]);
    folder.write(&[row("d", "1", 1.0)], &["b".to_owned()]).await.unwrap();
    folder.settle().await.unwrap();
    assert_eq!(seen(&folder).await, pairs(&[("a", "2"), ("c", "1"), ("d", "1")]));
    drop(folder);
    assert_eq!(
        seen(&opened(&path).await).await,
        pairs(&[("a", "2"), ("c", "1"), ("d", "1")])
    );
    // The first file has no rows left, so the file is removed.
    assert_eq!(numbers(&path).unwrap(), [2, 3]);
}

#[tokio::test]
async fn one_run_writes_at_a_time_and_files_of_others_are_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("v");
    let _first = opened(&path).await;
    let second = Folder::new(path.clone());
    assert!(
        second
            .create(&test_mark("s"))
            .await
            .unwrap_err()
            .to_string()
            .contains("another run")
    );
    let others = place.path().join("others");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("data.parquet"), "x").unwrap();
    let refused = Folder::new(others).create(&test_mark("s")).await.unwrap_err();
    assert!(refused.to_string().contains("data.parquet"), "{refused}");
}
