//! `antonym`: replaces one English word with its opposite, in the same form.
//!
//! The list was written for Isomer: common words whose opposite hardly depends on the context, with
//! every form listed, so that `bigger` becomes `smaller` and `arrived` becomes `left`. A word
//! matches only under a part of speech of its row: `left` is a verb in one row and a side in
//! another.

use isomer_tagger::Pos;

use super::words::{English, drawn};

/// A pair: parts of speech, and the forms of both sides in the same order, separated by spaces.
type Pair = (&'static [Pos], &'static str, &'static str);

const ADJ: &[Pos] = &[Pos::Adj];
const ADV: &[Pos] = &[Pos::Adv];
const ADJ_ADV: &[Pos] = &[Pos::Adj, Pos::Adv];
const NOUN: &[Pos] = &[Pos::Noun];
const VERB: &[Pos] = &[Pos::Verb];
const ADP: &[Pos] = &[Pos::Adp, Pos::Sconj];
const SIDE: &[Pos] = &[Pos::Adp, Pos::Adv];
const ANY: &[Pos] = &[Pos::Adj, Pos::Adv, Pos::Noun, Pos::Pron, Pos::Det];

/// The list.
const PAIRS: &[Pair] = &[
    (ADJ, "big bigger biggest", "small smaller smallest"),
    (ADJ, "large larger largest", "little smaller smallest"),
    (ADJ, "hot hotter hottest", "cold colder coldest"),
    (ADJ, "warm warmer warmest", "cool cooler coolest"),
    (ADJ, "old older oldest", "new newer newest"),
    (ADJ, "young younger youngest", "elderly older oldest"),
    (ADJ, "good better best", "bad worse worst"),
    (ADJ_ADV, "high higher highest", "low lower lowest"),
    (ADJ, "tall taller tallest", "short shorter shortest"),
    (ADJ_ADV, "long longer longest", "short shorter shortest"),
    (ADJ_ADV, "early earlier earliest", "late later latest"),
    (ADJ_ADV, "fast faster fastest", "slow slower slowest"),
    (ADJ, "quick quicker quickest", "slow slower slowest"),
    (ADJ, "easy easier easiest", "difficult harder hardest"),
    (ADJ, "simple simpler simplest", "complicated harder hardest"),
    (ADJ, "rich richer richest", "poor poorer poorest"),
    (ADJ, "strong stronger strongest", "weak weaker weakest"),
    (ADJ, "heavy heavier heaviest", "light lighter lightest"),
    (ADJ, "dark darker darkest", "bright brighter brightest"),
    (ADJ, "thick thicker thickest", "thin thinner thinnest"),
    (ADJ, "wide wider widest", "narrow narrower narrowest"),
    (ADJ, "deep deeper deepest", "shallow shallower shallowest"),
    (ADJ, "clean cleaner cleanest", "dirty dirtier dirtiest"),
    (ADJ, "wet wetter wettest", "dry drier driest"),
    (ADJ, "happy happier happiest", "sad sadder saddest"),
    (ADJ, "safe safer safest", "dangerous riskier riskiest"),
    (ADJ, "cheap cheaper cheapest", "expensive dearer dearest"),
    (ADJ, "loud louder loudest", "quiet quieter quietest"),
    (ADJ, "soft softer softest", "hard harder hardest"),
    (ADJ, "smooth smoother smoothest", "rough rougher roughest"),
    (ADJ, "sharp sharper sharpest", "blunt blunter bluntest"),
    (ADJ, "near nearer nearest", "distant farther farthest"),
    (ADJ, "full fuller fullest", "empty emptier emptiest"),
    (ADJ, "beautiful prettier prettiest", "ugly uglier ugliest"),
    (ADJ, "open", "closed"),
    (ADJ, "alive", "dead"),
    (ADJ, "true", "false"),
    (ADJ, "correct", "wrong"),
    (ADJ, "possible", "impossible"),
    (ADJ, "legal", "illegal"),
    (ADJ, "public", "private"),
    (ADJ, "positive", "negative"),
    (ADJ, "male", "female"),
    (ADJ, "white", "black"),
    (ADJ, "red", "green"),
    (ADJ, "blue", "yellow"),
    (ADJ, "fresh", "stale"),
    (ADJ, "raw", "cooked"),
    (ADJ, "ripe", "unripe"),
    (ADJ, "busy", "idle"),
    (ADJ, "major", "minor"),
    (ADJ, "northern", "southern"),
    (ADJ, "eastern", "western"),
    (ADJ, "domestic", "foreign"),
    (ADJ, "national", "international"),
    (ADJ, "happy", "unhappy"),
    (ADJ, "first", "last"),
    (ADJ, "previous", "next"),
    (ADJ, "successful", "unsuccessful"),
    (ADJ, "important", "unimportant"),
    (ADJ, "healthy", "sick"),
    (ADJ, "guilty", "innocent"),
    (ADJ, "left", "right"),
    (ADJ, "many more most", "few fewer fewest"),
    (ADV, "always", "never"),
    (ADV, "often", "rarely"),
    (ADV, "usually", "rarely"),
    (ADV, "quickly", "slowly"),
    (ADV, "loudly", "quietly"),
    (ADV, "carefully", "carelessly"),
    (ADV, "indoors", "outdoors"),
    (ADV, "upstairs", "downstairs"),
    (ADV, "yesterday", "tomorrow"),
    (ADV, "together", "separately"),
    (ADV, "here", "there"),
    (SIDE, "up", "down"),
    (SIDE, "inside", "outside"),
    (SIDE, "above", "below"),
    (SIDE, "before", "after"),
    (ADP, "over", "under"),
    (ADP, "with", "without"),
    (ANY, "more", "less"),
    (ANY, "everyone", "nobody"),
    (NOUN, "man men", "woman women"),
    (NOUN, "boy boys", "girl girls"),
    (NOUN, "father fathers", "mother mothers"),
    (NOUN, "son sons", "daughter daughters"),
    (NOUN, "brother brothers", "sister sisters"),
    (NOUN, "husband husbands", "wife wives"),
    (NOUN, "king kings", "queen queens"),
    (NOUN, "friend friends", "enemy enemies"),
    (NOUN, "adult adults", "child children"),
    (NOUN, "day days", "night nights"),
    (NOUN, "morning mornings", "evening evenings"),
    (NOUN, "summer summers", "winter winters"),
    (NOUN, "north", "south"),
    (NOUN, "east", "west"),
    (NOUN, "winner winners", "loser losers"),
    (NOUN, "success successes", "failure failures"),
    (NOUN, "victory victories", "defeat defeats"),
    (NOUN, "profit profits", "loss losses"),
    (NOUN, "beginning", "end"),
    (NOUN, "war", "peace"),
    (NOUN, "entrance entrances", "exit exits"),
    (NOUN, "buyer buyers", "seller sellers"),
    (NOUN, "teacher teachers", "student students"),
    (NOUN, "doctor doctors", "patient patients"),
    (NOUN, "dog dogs", "cat cats"),
    (NOUN, "salt", "sugar"),
    (NOUN, "advantage advantages", "disadvantage disadvantages"),
    (NOUN, "increase increases", "decrease decreases"),
    (
        VERB,
        "increase increases increased increasing",
        "decrease decreases decreased decreasing",
    ),
    (VERB, "rise rises rose rising risen", "fall falls fell falling fallen"),
    (VERB, "buy buys bought buying", "sell sells sold selling"),
    (VERB, "win wins won winning", "lose loses lost losing"),
    (VERB, "open opens opened opening", "close closes closed closing"),
    (VERB, "start starts started starting", "stop stops stopped stopping"),
    (
        VERB,
        "begin begins began beginning begun",
        "end ends ended ending ended",
    ),
    (VERB, "arrive arrives arrived arriving", "leave leaves left leaving"),
    (VERB, "love loves loved loving", "hate hates hated hating"),
    (VERB, "like likes liked liking", "dislike dislikes disliked disliking"),
    (
        VERB,
        "accept accepts accepted accepting",
        "refuse refuses refused refusing",
    ),
    (
        VERB,
        "allow allows allowed allowing",
        "forbid forbids forbade forbidding",
    ),
    (
        VERB,
        "remember remembers remembered remembering",
        "forget forgets forgot forgetting",
    ),
    (
        VERB,
        "succeed succeeds succeeded succeeding",
        "fail fails failed failing",
    ),
    (VERB, "push pushes pushed pushing", "pull pulls pulled pulling"),
    (
        VERB,
        "agree agrees agreed agreeing",
        "disagree disagrees disagreed disagreeing",
    ),
    (VERB, "borrow borrows borrowed borrowing", "lend lends lent lending"),
    (
        VERB,
        "build builds built building",
        "destroy destroys destroyed destroying",
    ),
    (VERB, "enter enters entered entering", "leave leaves left leaving"),
    (VERB, "find finds found finding", "lose loses lost losing"),
    (VERB, "laugh laughs laughed laughing", "cry cries cried crying"),
    (VERB, "live lives lived living", "die dies died dying"),
    (VERB, "sit sits sat sitting", "stand stands stood standing"),
    (VERB, "walk walks walked walking", "run runs ran running"),
    (VERB, "heat heats heated heating", "cool cools cooled cooling"),
    (
        VERB,
        "freeze freezes froze freezing frozen",
        "melt melts melted melting melted",
    ),
    (VERB, "gain gains gained gaining", "lose loses lost losing"),
    (
        VERB,
        "attack attacks attacked attacking",
        "defend defends defended defending",
    ),
    (
        VERB,
        "praise praises praised praising",
        "criticise criticises criticised criticising",
    ),
    (VERB, "raise raises raised raising", "lower lowers lowered lowering"),
    (VERB, "add adds added adding", "remove removes removed removing"),
    (
        VERB,
        "confirm confirms confirmed confirming",
        "deny denies denied denying",
    ),
];

/// The text with one word replaced; `parts` determine the draw among the words and, if a word is in
/// several rows, among the rows.
pub(super) fn exchanged(text: &English<'_>, parts: &[&str], seed: u64) -> Option<String> {
    let mut places: Vec<(usize, &'static str)> = Vec::new();
    for (at, word) in text.words.iter().enumerate() {
        places.extend(opposites(&word.lower, word.pos).map(|opposite| (at, opposite)));
    }
    let (at, opposite) = places.get(drawn(parts, seed, places.len()))?;
    text.replaced(*at, opposite)
}

/// Opposites of a word under a part of speech, in its form.
fn opposites(word: &str, pos: Pos) -> impl Iterator<Item = &'static str> {
    let rows = PAIRS.iter().filter(move |(parts, _, _)| parts.contains(&pos));
    rows.filter_map(move |(_, left, right)| {
        let across = |from: &'static str, to: &'static str| {
            let form = from.split(' ').position(|form| form == word)?;
            to.split(' ').nth(form)
        };
        across(left, right).or_else(|| across(right, left))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_pair_have_as_many_forms_and_differ_in_each() {
        for (_, left, right) in PAIRS {
            let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
            assert_eq!(left.len(), right.len(), "{left:?} {right:?}");
            assert!(
                left.iter()
                    .zip(&right)
                    .all(|(a, b)| a != b && !a.is_empty() && !b.is_empty())
            );
        }
    }
}
