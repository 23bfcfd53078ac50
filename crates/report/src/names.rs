//! Names of encoders that are paths, for readers: the last parts of the path that distinguish it
//! from the other encoders. `report.json` and `junit.xml` keep the ids.

use std::borrow::Cow;

use super::{Report, renamed};

/// The report with short names for encoders that are absolute paths.
pub(super) fn short(report: &Report) -> Cow<'_, Report> {
    let ids: Vec<&str> = report.encoders.iter().map(|one| one.id.as_str()).collect();
    let names = of_paths(&ids);
    if names.is_empty() {
        return Cow::Borrowed(report);
    }
    // Without short names the report is still whole.
    renamed(report, &names).map_or(Cow::Borrowed(report), Cow::Owned)
}

/// Pairs of a path and its name. A variant (`/m/enc+int8`) has the path of its encoder in its id.
fn of_paths(ids: &[&str]) -> Vec<(String, String)> {
    let is_path = |id: &&str| id.starts_with('/') && id.len() > 1;
    let is_taken = |name: &str, id: &str| {
        let ends = |other: &str| other == name || other.ends_with(&format!("/{name}"));
        ids.iter().any(|other| *other != id && ends(other))
    };
    let name = |id: &str| {
        let starts = id.match_indices('/').map(|(at, _)| at + 1);
        let free = starts
            .rev()
            .map(|at| &id[at..])
            .find(|name| !name.is_empty() && !is_taken(name, id));
        free.map(str::to_owned)
    };
    let paths = ids.iter().filter(|id| is_path(id));
    paths.filter_map(|id| Some(((*id).to_owned(), name(id)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_as_many_parts_as_tell_it_from_the_others() {
        let names = of_paths(&[
            "/u1/m/base",
            "/u2/m/base",
            "/u1/m/cls",
            "all-MiniLM-L6-v2",
            "/m/all-MiniLM-L6-v2",
        ]);
        let short: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(short, ["u1/m/base", "u2/m/base", "cls", "m/all-MiniLM-L6-v2"]);
        assert!(of_paths(&["org/name", "name"]).is_empty());
    }
}
