//! Places and peoples with several names: a country, its people, and short names of both.

use std::{
    collections::{BTreeSet, HashMap},
    sync::LazyLock,
};

/// The names of each place, in English, French and Spanish if they differ much. All words of an
/// entry must occur.
const PLACES: &[&[&str]] = &[
    &["usa", "us", "america", "american", "americans", "united states"],
    &["uk", "britain", "british", "briton", "britons", "united kingdom"],
    &["eu", "european union"],
    &["un", "united nations", "onu", "naciones unidas", "nations unies"],
    &["netherlands", "dutch", "holland"],
    &["france", "french", "frenchman", "frenchwoman"],
    &["germany", "german", "germans"],
    &["spain", "spanish", "spaniard", "spaniards"],
    &["china", "chinese"],
    &["japan", "japanese"],
    &["england", "english"],
    &["ireland", "irish"],
    &["scotland", "scottish", "scots", "scot"],
    &["wales", "welsh"],
    &["italy", "italian", "italians"],
    &["portugal", "portuguese"],
    &["russia", "russian", "russians"],
    &["poland", "polish", "pole", "poles"],
    &["sweden", "swedish", "swede", "swedes"],
    &["norway", "norwegian", "norwegians"],
    &["denmark", "danish", "dane", "danes"],
    &["finland", "finnish", "finn", "finns"],
    &["greece", "greek", "greeks"],
    &["turkey", "turkish", "turks", "türkiye"],
    &["switzerland", "swiss"],
    &["austria", "austrian", "austrians"],
    &["belgium", "belgian", "belgians"],
    &["czechia", "czech", "czechs"],
    &["hungary", "hungarian", "hungarians"],
    &["romania", "romanian", "romanians"],
    &["ukraine", "ukrainian", "ukrainians", "kyiv", "kiev"],
    &["canada", "canadian", "canadians"],
    &["mexico", "mexican", "mexicans"],
    &["brazil", "brazilian", "brazilians"],
    &["argentina", "argentine", "argentinian"],
    &["india", "indian", "indians"],
    &["pakistan", "pakistani", "pakistanis"],
    &["afghanistan", "afghan", "afghans"],
    &["iraq", "iraqi", "iraqis"],
    &["iran", "iranian", "iranians"],
    &["israel", "israeli", "israelis"],
    &["palestine", "palestinian", "palestinians"],
    &["syria", "syrian", "syrians"],
    &["egypt", "egyptian", "egyptians"],
    &["australia", "australian", "australians"],
    &["korea", "korean", "koreans"],
    &["vietnam", "vietnamese"],
    &["thailand", "thai"],
    &["philippines", "filipino", "filipinos", "philippine"],
    &["indonesia", "indonesian", "indonesians"],
    &["nigeria", "nigerian", "nigerians"],
    &["kenya", "kenyan", "kenyans"],
    &["africa", "african", "africans"],
    &["europe", "european", "europeans"],
    &["asia", "asian", "asians"],
    &["islam", "islamic", "muslim", "muslims"],
    &["california", "californian", "californians"],
    &["texas", "texan", "texans"],
    &["nyc", "new york"],
    &["dc", "washington"],
    &["fbi", "federal bureau of investigation"],
    &["fed", "federal reserve"],
    &["ecb", "european central bank"],
];

/// A place by its index, and the words of one of its names.
type PlaceName = (usize, Vec<&'static str>);

/// The names, indexed by their first words.
static WRITTEN: LazyLock<HashMap<&str, Vec<PlaceName>>> = LazyLock::new(|| {
    let mut written = HashMap::<_, Vec<_>>::new();
    for (place, names) in PLACES.iter().enumerate() {
        for name in *names {
            let parts: Vec<&str> = name.split(' ').collect();
            written.entry(parts[0]).or_default().push((place, parts));
        }
    }
    written
});

/// The places that a text names, by their indices.
pub(super) fn of(words: &[String]) -> BTreeSet<usize> {
    let at = |from: usize| {
        let begun = WRITTEN.get(words[from].as_str()).into_iter().flatten();
        let rest = &words[from..];
        begun.filter(|(_, parts)| rest.len() >= parts.len() && rest.iter().zip(parts).all(|(a, b)| a == b))
    };
    (0..words.len()).flat_map(at).map(|(place, _)| *place).collect()
}
