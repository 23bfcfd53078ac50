#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

const PIECES: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", "▁a"];

/// Width 32, no layers, five words; the words in four bits, the rest in f32.
fn tiny() -> Vec<u8> {
    let mut out = b"E5S1".to_vec();
    let int = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    for value in [1, 32, 0, 1, 64, 5, 2, 1] {
        int(&mut out, value);
    }
    out.extend_from_slice(&1e-12f32.to_le_bytes());
    for value in [0, 5, 0, 2, 1, 3] {
        int(&mut out, value);
    }
    let text = PIECES.concat();
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    let mut end = 0;
    int(&mut out, 0);
    for piece in PIECES {
        end += piece.len() as u32;
        int(&mut out, end);
    }
    for score in 0..5 {
        out.extend_from_slice(&(-(score as f32)).to_le_bytes());
    }
    out.extend_from_slice(text.as_bytes());
    int(&mut out, 0);
    int(&mut out, 0);
    let tensors = [
        ("emb.word", 1, 90),
        ("emb.pos", 0, 256),
        ("emb.type", 0, 128),
        ("emb.ln.w", 0, 128),
        ("emb.ln.b", 0, 128),
    ];
    int(&mut out, tensors.len() as u32);
    let directory: usize = tensors.iter().map(|(name, ..)| 2 + name.len() + 21).sum();
    let mut first = out.len() + directory;
    let mut data = Vec::new();
    for (name, kind, bytes) in tensors {
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.push(kind);
        int(&mut out, 0);
        out.extend_from_slice(&(first as u64).to_le_bytes());
        out.extend_from_slice(&(bytes as u64).to_le_bytes());
        first += bytes;
        if kind == 1 {
            for _ in 0..bytes / BLOCK_BYTES {
                data.extend_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
                data.extend((0..16u8).map(|i| i | (15 - i) << 4));
            }
        } else {
            data.extend((0..bytes / 4).flat_map(|i| (i as f32).to_le_bytes()));
        }
    }
    out.extend(data);
    out
}

#[test]
fn four_bit_blocks_are_widened_low_nibbles_first() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model.safetensors");
    weights(&tiny(), Path::new("tiny.bin"), &to).unwrap();
    let bytes = std::fs::read(&to).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let words = file.tensor("embeddings.word_embeddings.weight").unwrap();
    assert_eq!(words.shape(), [5, 32]);
    let values: Vec<f32> = words
        .data()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let half = |nibble: i32| (nibble - 8) as f32 * 0.5;
    let expected: Vec<f32> = (0..16).map(half).chain((0..16).rev().map(half)).collect();
    assert!(values.chunks(32).all(|row| row == expected));
    assert_eq!(
        file.tensor("embeddings.LayerNorm.bias").unwrap().data()[4..8],
        1f32.to_le_bytes()
    );
    assert_eq!(file.len(), 5);
}

#[test]
fn the_tokenizer_carries_the_vocabulary_and_the_map() {
    let map = SentencePiece {
        normalizer: Some(Normalizer {
            name: "nmt_nfkc".into(),
            map: b"map".to_vec(),
        }),
    };
    let of = |map: &[u8]| tokenizer(&tiny(), Path::new("a"), map, Path::new("b"));
    let json = of(&map.encode_to_vec()).unwrap();
    assert_eq!(json["model"]["vocab"][4], json!(["▁a", -4.0]));
    assert_eq!(json["model"]["unk_id"], 3);
    assert_eq!(
        json["normalizer"]["normalizers"][1]["precompiled_charsmap"],
        STANDARD.encode("map")
    );
    assert_eq!(json["added_tokens"].as_array().unwrap().len(), 4);
    assert_eq!(json["post_processor"]["special_tokens"]["</s>"]["ids"], json!([2]));
    assert!(of(b"").unwrap_err().to_string().contains("nmt_nfkc"));
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let whole = tiny();
    let folder = tempfile::tempdir().unwrap();
    for keep in 0..whole.len() {
        let error = weights(&whole[..keep], Path::new("tiny.bin"), &folder.path().join("x")).unwrap_err();
        assert!(error.to_string().contains("tiny.bin"), "{error}");
    }
}
