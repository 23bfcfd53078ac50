//! The two tag sets.

use std::fmt;

macro_rules! tag_set {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        isomer_names::names!($name { $($variant = $text),* });

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

tag_set! {
    /// The Universal parts of speech (Universal Dependencies, version 2).
    Pos {
        /// Adjective.
        Adj = "ADJ",
        /// Preposition.
        Adp = "ADP",
        /// Adverb.
        Adv = "ADV",
        /// Auxiliary: forms of be, modals, have and do before a verb.
        Aux = "AUX",
        /// Coordinating conjunction.
        Cconj = "CCONJ",
        /// Determiner.
        Det = "DET",
        /// Interjection.
        Intj = "INTJ",
        /// Common noun.
        Noun = "NOUN",
        /// Number.
        Num = "NUM",
        /// Particle: not, the to of an infinitive, the 's of a possessor.
        Part = "PART",
        /// Pronoun.
        Pron = "PRON",
        /// Proper noun.
        Propn = "PROPN",
        /// Punctuation.
        Punct = "PUNCT",
        /// Subordinating conjunction.
        Sconj = "SCONJ",
        /// Symbol.
        Sym = "SYM",
        /// Verbs, auxiliaries apart.
        Verb = "VERB",
        /// Anything else.
        X = "X",
    }
}

tag_set! {
    /// The types of named entities of OntoNotes 5, which are those of spaCy's English models.
    EntityLabel {
        /// Person, fictional ones too.
        Person = "PERSON",
        /// Nationality, religion or political group.
        Norp = "NORP",
        /// Building, airport, road, bridge.
        Fac = "FAC",
        /// Company, agency, institution.
        Org = "ORG",
        /// Country, city, state.
        Gpe = "GPE",
        /// Other places: mountains, waters.
        Loc = "LOC",
        /// Manufactured thing: vehicle, food; not services.
        Product = "PRODUCT",
        /// Named storm, battle, war, games.
        Event = "EVENT",
        /// Title of a book, song, film.
        WorkOfArt = "WORK_OF_ART",
        /// Named document made into law.
        Law = "LAW",
        /// Named language.
        Language = "LANGUAGE",
        /// Date or period of days and more.
        Date = "DATE",
        /// Time smaller than a day.
        Time = "TIME",
        /// Percentage, its sign included.
        Percent = "PERCENT",
        /// Sum of money, its unit included.
        Money = "MONEY",
        /// Measurement: weight, distance.
        Quantity = "QUANTITY",
        /// First, second.
        Ordinal = "ORDINAL",
        /// Number of no other type.
        Cardinal = "CARDINAL",
    }
}
