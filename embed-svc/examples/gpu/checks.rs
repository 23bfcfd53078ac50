//! Whether vectors are right, and the same in every batch.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use isomer_embed::{
    batch::Sequence,
    device::{Device, Precision},
    folder::Source,
    model::Model,
};
use serde_json::{Value, json};

use crate::{
    inputs::{Rng, alone, compare, equal_bits, sequences},
    session::{Outcome, Session, Subject, round},
};

/// Least cosine that passes. Nothing evens out the errors of random weights behind the sharp
/// softmax over latents of `nv_embed`.
fn tolerance(precision: Precision, architecture: &str) -> f64 {
    match precision {
        Precision::F16 => 0.999,
        Precision::Bf16 if architecture == "nvembed" => 0.9,
        Precision::Bf16 => 0.99,
        _ => 0.999_99,
    }
}

/// The CPU engine's vectors of one folder.
struct Reference {
    folder: PathBuf,
    model: Model,
    texts: Vec<Sequence>,
    vectors: Vec<f32>,
}

impl Reference {
    fn new(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let model = Model::load(folder, &Device::Cpu)?;
        let texts = sequences(&model)?;
        let vectors = if model.dimensions() == 0 {
            Vec::new()
        } else {
            model.encode_sequences(texts.iter())?.text_vectors
        };
        Ok(Self {
            folder: folder.to_owned(),
            model,
            texts,
            vectors,
        })
    }
}

pub(crate) fn parity(session: &Session, folders: &[PathBuf]) -> bool {
    let mut last: Option<Reference> = None;
    session.each(folders, |subject| {
        let reference = match last.take() {
            Some(reference) if reference.folder == subject.folder => reference,
            _ => Reference::new(subject.folder)?,
        };
        compare_with_cpu(subject, last.insert(reference))
    })
}

fn compare_with_cpu(subject: &Subject<'_>, cpu: &Reference) -> Outcome {
    let width = cpu.model.dimensions();
    // Static vectors are looked up on the CPU whatever the device.
    if width == 0 || cpu.model.folder().source != Source::Transformer {
        return Ok(());
    }
    let started = Instant::now();
    let model = subject.load()?;
    let load = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let found = model.encode_sequences(cpu.texts.iter())?.text_vectors;
    let first = started.elapsed().as_secs_f64();
    let again = model.encode_sequences(cpu.texts.iter())?.text_vectors;
    let mut single = Vec::new();
    for text in &cpu.texts {
        single.extend(model.encode_sequences(std::iter::once(text))?.text_vectors);
    }
    let (cosine, difference) = compare(&found, &cpu.vectors, width);
    let equal = single
        .iter()
        .zip(&found)
        .filter(|(a, b)| a.to_bits() == b.to_bits())
        .count();
    let mut row = json!({
        "architecture": model.architecture(),
        "cosine": round(cosine, 9),
        "difference": difference,
        "repeat_equal": equal_bits(&found, &again),
        "company_equal": round(equal as f64 / found.len() as f64, 4),
        "company_cosine": round(compare(&single, &found, width).0, 9),
        "load_s": round(load, 2),
        "first_s": round(first, 3),
    });
    let least = tolerance(subject.precision, model.architecture());
    if cosine.is_nan() || cosine < least {
        row["error"] = json!(format!("the least cosine is {cosine}; at least {least} is expected"));
    }
    subject.row(&row);
    Ok(())
}

/// Lengths around the sizes of tiles; `Bits` adds as many evenly spread ones.
const EDGES: [usize; 32] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 319, 320, 321,
    383, 384, 385, 511, 512,
];

#[derive(Args)]
pub(crate) struct Bits {
    /// Tokens of the largest batch.
    #[arg(long, default_value_t = 65_536)]
    batch_tokens: usize,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl Bits {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| self.count(subject))
    }

    fn count(&self, subject: &Subject<'_>) -> Outcome {
        let model = subject.load()?;
        let width = model.dimensions();
        let mut rng = Rng(41);
        let lengths = EDGES.into_iter().chain((0..32).map(|i| 1 + i * 511 / 31));
        let mut texts: Vec<Vec<u32>> = lengths
            .map(|length| rng.ids(&model, length.min(model.max_tokens())))
            .collect();
        let count = texts.len();
        let mut filler = self.batch_tokens.saturating_sub(texts.iter().map(Vec::len).sum());
        while filler > 0 {
            let length = (1 + rng.below(512)).min(model.max_tokens()).min(filler);
            texts.push(rng.ids(&model, length));
            filler -= length;
        }
        let expected = alone(&model, &texts[..count])?;
        let mut row = json!({"texts": count, "batch_tokens": self.batch_tokens, "batch_texts": texts.len()});
        let mut order: Vec<usize> = (0..count).collect();
        let mut arrange = |name: &str, order: &[usize], size: usize| -> Outcome {
            let mut different = Vec::new();
            for part in order.chunks(size) {
                let batch: Vec<&[u32]> = part.iter().map(|text| texts[*text].as_slice()).collect();
                let vectors = model.encode(&batch)?;
                for (text, vector) in part
                    .iter()
                    .zip(vectors.chunks(width))
                    .filter(|(text, _)| **text < count)
                {
                    if !equal_bits(vector, &expected[text * width..(text + 1) * width]) {
                        different.push(texts[*text].len());
                    }
                }
            }
            row[name] = json!(different.len());
            if !different.is_empty() {
                different.truncate(8);
                row[format!("{name}_lengths")] = json!(different);
            }
            Ok(())
        };
        arrange("again", &order, 1)?;
        arrange("pairs", &order, 2)?;
        arrange("together", &order, count)?;
        rng.shuffle(&mut order);
        arrange("shuffled", &order, count)?;
        let mut all: Vec<usize> = (0..texts.len()).collect();
        rng.shuffle(&mut all);
        arrange("filled", &all, all.len())?;
        subject.row(&row);
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct BatchArgs {
    /// Texts of one batch.
    #[arg(long, default_value_t = 70_000)]
    texts: usize,
    /// Model folders.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
}

impl BatchArgs {
    pub(crate) fn run(&self, session: &Session) -> bool {
        session.each(&self.folders, |subject| {
            let cpu = Model::load(subject.folder, &Device::Cpu)?;
            let width = cpu.dimensions();
            let mut rng = Rng(5);
            let texts: Vec<Vec<u32>> = (0..self.texts)
                .map(|_| {
                    let length = 2 + rng.below(2);
                    rng.ids(&cpu, length)
                })
                .collect();
            let found = subject.load()?.encode(&texts)?;
            let places = [0, 1, 30_000, 65_534, 65_535, 65_536, self.texts - 1];
            let mut row = json!({"texts": self.texts, "places": [], "cosines": []});
            for place in places.into_iter().filter(|place| *place < self.texts) {
                let expected = cpu.encode(&texts[place..=place])?;
                let (cosine, _) = compare(&found[place * width..(place + 1) * width], &expected, width);
                push(&mut row["places"], json!(place));
                push(&mut row["cosines"], json!(round(cosine, 6)));
                let least = tolerance(subject.precision, cpu.architecture());
                if cosine.is_nan() || cosine < least {
                    row["error"] = json!(format!("a cosine is {cosine}; at least {least} is expected"));
                }
            }
            subject.row(&row);
            Ok(())
        })
    }
}

fn push(list: &mut Value, value: Value) {
    list.as_array_mut()
        .into_iter()
        .for_each(|list| list.push(value.clone()));
}

/// The token whose embedding is NaN, and the token that stands in its place for comparison.
const NOT_FINITE: u32 = 11;
const FINITE: u32 = 12;

pub(crate) fn poison(session: &Session, folders: &[PathBuf]) -> bool {
    session.each(folders, |subject| {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join(subject.model());
        copy_with_nan(subject.folder, &copy)?;
        let model = Model::load(&copy, &subject.open()?)?;
        let width = model.dimensions();
        let mut rng = Rng(23);
        let mut texts: Vec<Vec<u32>> = (0..48)
            .map(|i| {
                let length = (1 + i * 7).min(model.max_tokens());
                rng.ids(&model, length)
            })
            .collect();
        for id in texts.iter_mut().flatten().filter(|id| **id == NOT_FINITE) {
            *id = FINITE;
        }
        let clean = model.encode(&texts)?;
        let poisoned: Vec<usize> = (0..texts.len()).filter(|text| text % 6 == 2).collect();
        for text in &poisoned {
            let last = texts[*text].len() - 1;
            texts[*text][last / 2] = NOT_FINITE;
        }
        let found = model.encode(&texts)?;
        let (mut finite, mut changed) = (0, 0);
        for (text, (clean, found)) in clean.chunks(width).zip(found.chunks(width)).enumerate() {
            if !poisoned.contains(&text) {
                changed += usize::from(!equal_bits(clean, found));
            } else if found.iter().all(|value| value.is_finite()) {
                finite += 1;
            }
        }
        let mut row = json!({"poisoned": poisoned.len(), "poisoned_but_finite": finite, "others_changed": changed});
        if finite + changed > 0 {
            row["error"] = json!("NaN was lost, or reached another text");
        }
        subject.row(&row);
        Ok(())
    })
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Copies a model folder and writes NaN over one row of its token embeddings.
fn copy_with_nan(from: &Path, to: &Path) -> Outcome {
    copy(from, to)?;
    let file = to.join("model.safetensors");
    let mut bytes = fs::read(&file)?;
    let (size, header) = safetensors::SafeTensors::read_metadata(&bytes)?;
    let names = ["word_embeddings.weight", "embed_tokens.weight", "tok_embeddings.weight"];
    let (_, table) = header
        .tensors()
        .into_iter()
        .find(|(name, _)| names.iter().any(|end| name.ends_with(end)))
        .ok_or("model.safetensors has no table of token embeddings")?;
    let value: &[u8] = match table.dtype {
        safetensors::Dtype::F32 => &[0, 0, 0xc0, 0x7f],
        safetensors::Dtype::F16 => &[0, 0x7e],
        safetensors::Dtype::BF16 => &[0xc0, 0x7f],
        other => return Err(format!("token embeddings of type {other:?} are not supported").into()),
    };
    let row = table.shape[1] * value.len();
    let begin = 8 + size + table.data_offsets.0 + NOT_FINITE as usize * row;
    for place in bytes[begin..begin + row].chunks_exact_mut(value.len()) {
        place.copy_from_slice(value);
    }
    Ok(fs::write(file, bytes)?)
}
