//! `isomer index interleave` and `isomer index preference`.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::ExitCode,
};

use isomer_index::compare::{
    self, Resampling, Settings,
    interleave::{Draft, DraftSettings, Event, Team, drafts, preference},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    compare::{resampling, sides},
    compared, failure, queries,
};
use crate::{
    args::{
        Global,
        index_compare::{IndexInterleaveArgs, IndexPreferenceArgs},
    },
    connect::Session,
    exit::Failure,
    progress::{Display, Step},
};

/// Version of the format.
const SCHEMA: &str = "isomer.interleaved/1";

/// The first line of the lists.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    schema: String,
    a: String,
    b: String,
    k: usize,
    draft_seed: u64,
}

/// A list. `teams` has the letter of each document's team at the document's position.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    impression: String,
    query: String,
    documents: Vec<String>,
    teams: String,
}

/// A line of the log. Loggers may add other fields.
#[derive(Debug, Deserialize)]
struct LogLine {
    impression: String,
    #[serde(default)]
    document: Option<String>,
}

pub(super) async fn draft(session: &Session, args: IndexInterleaveArgs) -> Result<ExitCode, Failure> {
    let display = Display::new(session.global.quiet);
    args.sides.augmentation.check(false)?;
    let queries = queries::queries(&args.search.queries)?;
    compare::check(&queries, None).map_err(failure)?;
    let connection = session.connect().await?;
    let sides = sides(&connection, [&args.first, &args.second], &args.sides, &display).await?;
    let settings = Settings {
        k: args.search.k as usize,
        in_flight: args.search.in_flight as usize,
        exact: false,
        resampling: Resampling {
            resamples: 0,
            level: 0.95,
            seed: 0,
        },
    };
    display.step("searching", &Step::default());
    let words: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
    let mut lists = Vec::with_capacity(2);
    for (store, encoder) in &sides {
        let side = compare::Side {
            store: store.as_ref(),
            encoder,
        };
        lists.push(
            compare::lists(side, &words, settings)
                .await
                .map_err(failure)?
                .documents(),
        );
    }
    connection.flush().await;
    let seed = args.draft_seed.unwrap_or_else(drawn);
    let draft_settings = DraftSettings {
        k: settings.k,
        impressions: args.impressions as usize,
        seed,
    };
    let all = drafts(&queries, &lists[0], &lists[1], draft_settings);
    let header = Header {
        schema: SCHEMA.to_owned(),
        a: sides[0].0.name().to_owned(),
        b: sides[1].0.name().to_owned(),
        k: settings.k,
        draft_seed: seed,
    };
    write(&args.lists, &header, &all)?;
    display.message(&format!("{} lists written to {}", all.len(), args.lists.display()));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn read(global: &Global, args: &IndexPreferenceArgs) -> Result<ExitCode, Failure> {
    let resampling = resampling(&args.intervals)?;
    let (header, drafts) = lists(&args.lists)?;
    let log: Vec<LogLine> = json_lines(&args.clicks, "the log", 0)?;
    let events: Vec<Event> = log
        .into_iter()
        .map(|line| Event {
            impression: line.impression,
            document: line.document,
        })
        .collect();
    let found = preference(&drafts, &events, resampling).map_err(failure)?;
    compared::preference(global.format, [&header.a, &header.b], &found, resampling.level)?;
    Ok(ExitCode::SUCCESS)
}

/// An unpredictable seed.
fn drawn() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn write(path: &Path, header: &Header, drafts: &[Draft]) -> Result<(), Failure> {
    let unwritable =
        |error: std::io::Error| Failure::dependency(format!("--lists: cannot write {}: {error}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(unwritable)?);
    let line = |value: serde_json::Result<String>| value.map_err(|error| unwritable(error.into()));
    writeln!(file, "{}", line(serde_json::to_string(header))?).map_err(unwritable)?;
    for draft in drafts {
        let team = |(_, team): &(String, Team)| match team {
            Team::A => 'A',
            Team::B => 'B',
        };
        let own = Line {
            impression: draft.impression.clone(),
            query: draft.query.clone(),
            documents: draft.documents.iter().map(|(document, _)| document.clone()).collect(),
            teams: draft.documents.iter().map(team).collect(),
        };
        writeln!(file, "{}", line(serde_json::to_string(&own))?).map_err(unwritable)?;
    }
    file.flush().map_err(unwritable)
}

fn lists(path: &Path) -> Result<(Header, Vec<Draft>), Failure> {
    let headers: Vec<serde_json::Value> = json_lines(path, "--lists", 0)?;
    let header = headers
        .first()
        .and_then(|first| serde_json::from_value::<Header>(first.clone()).ok())
        .filter(|header| header.schema == SCHEMA)
        .ok_or_else(|| {
            Failure::dependency(format!(
                "--lists: {} was not written by `isomer index interleave` of this version",
                path.display()
            ))
        })?;
    let lines: Vec<Line> = json_lines(path, "--lists", 1)?;
    let mut drafts = Vec::with_capacity(lines.len());
    for line in lines {
        if line.teams.chars().count() != line.documents.len() || line.teams.chars().any(|team| !"AB".contains(team)) {
            return Err(Failure::dependency(format!(
                "--lists: the list `{}` has {} documents and the teams `{}`; each document has A or B",
                line.impression,
                line.documents.len(),
                line.teams
            )));
        }
        let teams = line
            .teams
            .chars()
            .map(|team| if team == 'A' { Team::A } else { Team::B });
        drafts.push(Draft {
            impression: line.impression,
            query: line.query,
            documents: line.documents.into_iter().zip(teams).collect(),
        });
    }
    Ok((header, drafts))
}

/// The lines of a file except the first `skipped`; empty lines do not count.
fn json_lines<T: DeserializeOwned>(path: &Path, what: &str, skipped: usize) -> Result<Vec<T>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::unreadable(format!("{what}: cannot read {}: {error}", path.display()), &error);
    let file = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut all = Vec::new();
    for (number, line) in file.lines().enumerate().skip(skipped) {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        all.push(serde_json::from_str(&line).map_err(|error| {
            Failure::dependency(format!("{what}: {}, line {}: {error}", path.display(), number + 1))
        })?);
    }
    Ok(all)
}
