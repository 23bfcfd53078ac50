//! Prints how many variants of a sentence each channel makes a second on one core.
//!
//! `cargo run --release -p isomer-noise --example rate`
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use isomer_noise::{Channel, Dose, Language, apply};

/// One sentence of about 60 to 100 characters for each kind of script.
const SENTENCES: [(&str, &str); 8] = [
    (
        "en",
        "The people in the city buy bread and milk at the market every morning, because it is cheap.",
    ),
    (
        "de",
        "Die Kinder spielen im Garten, während die Mutter für die ganze Familie ein Brot und Käse kauft.",
    ),
    (
        "fr",
        "Les enfants jouent dans le jardin, et la mère achète du pain et du fromage pour toute la famille.",
    ),
    (
        "ru",
        "Дети играют в саду, а мать покупает хлеб и ещё молоко для всей семьи на рынке.",
    ),
    (
        "ar",
        "يلعب الأطفال في الحديقة، والأم تشتري الخبز والحليب لكل العائلة من السوق.",
    ),
    (
        "hi",
        "बच्चे बगीचे में खेलते हैं, और माँ बाजार से पूरे परिवार के लिए रोटी और दूध खरीदती है।",
    ),
    (
        "ko",
        "아이들은 정원에서 놀고, 어머니는 시장에서 온 가족을 위해 빵과 우유를 산다.",
    ),
    (
        "zh",
        "孩子们在花园里玩耍，母亲在市场上为全家人买面包和牛奶，因为今天的天气很好。",
    ),
];

fn main() {
    print!("{:<16}", "channel");
    SENTENCES.iter().for_each(|(code, _)| print!("{code:>10}"));
    println!();
    for channel in Channel::ALL {
        print!("{:<16}", channel.name());
        for (code, sentence) in SENTENCES {
            match Language::parse(code).and_then(|language| rate(channel, sentence, language)) {
                Some(rate) => print!("{rate:>10.0}"),
                None => print!("{:>10}", "-"),
            }
        }
        println!();
    }
}

/// Variants a second; `None` where the channel does not apply.
fn rate(channel: Channel, sentence: &str, language: Language) -> Option<f64> {
    let (start, mut seed) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_millis(200) {
        for dose in Dose::ALL {
            for _ in 0..50 {
                std::hint::black_box(apply(channel, sentence, language, dose, seed).ok()?);
                seed += 1;
            }
        }
    }
    Some(seed as f64 / start.elapsed().as_secs_f64())
}
