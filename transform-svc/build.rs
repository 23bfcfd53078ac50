//! Lists the prompts of the folder `prompts`, so that a prompt is one file.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=prompts");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("prompts");
    let mut files = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    files.sort();
    let mut list = String::from("/// The prompts compiled in, by id.\nconst BUILT_IN: &[(&str, &str)] = &[\n");
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "txt"))
    {
        let id = file.file_stem().unwrap_or_default().to_string_lossy();
        writeln!(list, "    ({id:?}, {:?}),", fs::read_to_string(file)?)?;
    }
    list.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("prompts.rs"), list)?;
    Ok(())
}
