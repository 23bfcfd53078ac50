//! Inputs that are too long for a corpus.

use std::fs;

use isomer_embed::folder::ModelFolder;

/// Regression: suggestions for misspelt names once compared such a name with every known one, which
/// took minutes.
#[test]
fn a_class_name_of_100_000_characters_is_refused_in_a_short_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: String| fs::write(folder.path().join(name), content).unwrap();
    let modules = |class: &str| format!(r#"[{{"path":"","type":"{class}"}}]"#);
    write("config.json", r#"{"model_type":"bert","hidden_size":8}"#.to_owned());
    write("tokenizer.json", "{}".to_owned());
    for class in [
        "x".repeat(100_000),
        format!("sentence_transformers.models.{}", "Pooling".repeat(15_000)),
    ] {
        write("modules.json", modules(&class));
        let error = ModelFolder::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("modules.json") && error.len() < 1000,
            "{} bytes",
            error.len()
        );
    }
    write("modules.json", modules("sentence_transformers.models.Transformer"));
    ModelFolder::read(folder.path()).unwrap();
}
