//! Runs over many data sets, for gates that decide in rounds.

use isomer_proto::eval::v1::{SuiteRef, suite_ref};
use serde_json::Value;

use super::{Harness, STS};

/// A suite over this many data sets, each with five texts of its own and five that all share.
pub fn suite(harness: &Harness, datasets: usize, gate: &str) -> SuiteRef {
    let folder = harness.home.path().join("data");
    std::fs::create_dir_all(&folder).unwrap();
    // Five pairs are too few to decide on or to beat chance, and the stub's summaries have the same
    // beginning. These limits are last if possible, so that the lines of a test's own text keep
    // their numbers.
    let limits = "max_at_chance = 1.0\nmin_items = 1\nmax_same_rewrites = 1.0\n";
    let gate = match (gate.contains("[gate]\n"), gate.find("[[gate.rule]]")) {
        (true, Some(rules)) => format!("{}\n{limits}{}", &gate[..rules], &gate[rules..]),
        (true, None) => format!("{gate}\n{limits}"),
        (false, _) => format!("{gate}\n[gate]\n{limits}"),
    };
    let mut text =
        format!("name = \"many\"\nseeds = [1, 2]\ntransformations = [\"summarisation\", \"paraphrase\"]\n{gate}\n");
    for d in 0..datasets {
        let rows = STS.replace("sentence1\": \"", &format!("sentence1\": \"Number {d}, "));
        std::fs::write(folder.join(format!("set{d}.jsonl")), rows).unwrap();
        text.push_str(&format!("[[dataset]]\ntask = \"sts\"\npath = \"set{d}.jsonl\"\n"));
    }
    SuiteRef {
        source: Some(suite_ref::Source::Toml(text)),
        base_dir: folder.display().to_string(),
        file_name: "many.toml".to_owned(),
    }
}

/// Main scores by data set, transformation and seed.
pub fn scores(json: &Value) -> Vec<(String, f64)> {
    let rows = json["scores"].as_array().unwrap();
    rows.iter()
        .map(|row| {
            let place = format!("{} {} {}", row["dataset"], row["transformation"], row["seed"]);
            (place, row["main_score"].as_f64().unwrap())
        })
        .collect()
}
