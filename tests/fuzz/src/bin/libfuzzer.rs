//! Runs one target under libFuzzer. `ISOMER_FUZZ_TARGET` names it; libFuzzer's own options and
//! corpus folders are the arguments.
#![no_main]

use std::sync::LazyLock;

use isomer_fuzz::Target;

static TARGET: LazyLock<Option<&'static Target>> =
    LazyLock::new(|| isomer_fuzz::target(&std::env::var("ISOMER_FUZZ_TARGET").unwrap_or_default()));

libfuzzer_sys::fuzz_target!(
    init: {
        let ours = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // These libraries panic on some broken files. The readers catch that and refuse the
            // file.
            let file = panic.location().map_or("", |at| at.file());
            let libraries = ["/tokenizers-", "/parquet-"];
            let is_caught = libraries.iter().any(|name| file.contains(name)) || file.ends_with("/quantized/gguf_file.rs");
            if !is_caught {
                ours(panic);
            }
        }));
        assert!(TARGET.is_some(), "ISOMER_FUZZ_TARGET names no target");
    },
    |data: &[u8]| {
        if let Some(target) = *TARGET {
            (target.run)(data);
        }
    }
);
