//! Fixed texts. A difference means that the noise of a seed has changed, and with it every result
//! that was reported under that seed.

use crate::{Channel, Dose, Language, apply};

/// Channel, language, text and the text at the highest dose with seed 1337.
#[rustfmt::skip]
const VECTORS: &[(Channel, &str, &str, &str)] = &[
    (Channel::Keyboard, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "Fh doh zeelx ib thd hous, nxeayse jt tains tdost (25 dya of 2020)."),
    (Channel::Keyboard, "fr", "L'été, les élèves étaient très fatigués.", "P'at, oez élèvds éaizbn tfès ftituaq."),
    (Channel::Keyboard, "tr", "Köpek evde uyuyor, çünkü bugün yağmur yağıyor.", "Öleı wvds uyuot, çünmkü bjyğn uağumf yğıgot."),
    (Channel::Keyboard, "ar", "الكلب ينام في البيت، لأن المطر شديد اليوم.", "الظلب بنىم فؤ اايعت، رأو علامدر شديد الوك."),
    (Channel::Keyboard, "hi", "क\u{941}त\u{94d}ता घर म\u{947}\u{902} सोता ह\u{948}, क\u{94d}यो\u{902}कि आज बारिश ह\u{948}।", "क\u{941}त\u{94d}ता ऱकर म\u{947}\u{947} सोता ह\u{948}, तक\u{94d}यो\u{902}कित आज ब\u{948}पिश ह\u{948}।"),
    (Channel::Keyboard, "ko", "오늘은 비가 와서, 개가 집에서 잔다.", "오늘은 배갸 와스, 새기 잡테서 잔디."),
    (Channel::Keyboard, "th", "ส\u{e38}น\u{e31}ขนอนหล\u{e31}บในบ\u{e49}าน", "ส\u{e38}น\u{e31}ขนดจหล\u{e36}บใยบ\u{e49}าจน"),
    (Channel::Ocr, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "Thc clog slceps in lbe hou5c, becau5e il roins loclay (25 doys ot 2020)."),
    (Channel::Ocr, "zh", "今天人们在大土地上问天气，日子不好。", "今天人们在犬土地上间夭气，日孑不好。"),
    (Channel::Ocr, "ru", "Собака спит в доме, потому что идёт дождь.", "Собако опиг в доме, нсгсму чтс нлег дсждъ."),
    (Channel::Case, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "The dog sleeps in The house, because It rains today (25 days Of 2020)."),
    (Channel::Case, "tr", "İstanbul'da ışık ve iyi bir gün.", "İstanbul'da ışık ve İyi Bir gün."),
    (Channel::Spacing, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "The dog sleeps in the house, b ecause itrains today(25 daysof 2020)."),
    (Channel::Spacing, "zh", "今天人们都说天气不好。", "今天人 们 都说 天气 不好。"),
    (Channel::Punctuation, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "The dog sleeps in the house, because it! rains? today (25 days of 2020)."),
    (Channel::Punctuation, "hi", "क\u{941}त\u{94d}ता घर म\u{947}\u{902} सोता ह\u{948}, क\u{94d}यो\u{902}कि आज बारिश ह\u{948}।", "क\u{941}त\u{94d}ता, घर म\u{947}\u{902}? सोता ह\u{948}, क\u{94d}यो\u{902}कि आज बारिश ह\u{948}"),
    (Channel::Diacritics, "vi", "Con chó ngủ trong nhà, vì hôm nay trời mưa.", "Con cho ngu trong nhà, vi hôm nay trời mua."),
    (Channel::Diacritics, "ar", "الك\u{64e}ل\u{652}ب\u{64f} ي\u{64e}نام\u{64f} في الب\u{64e}ي\u{652}ت\u{650}", "الك\u{64e}ل\u{652}ب ينام\u{64f} في الب\u{64e}ي\u{652}ت\u{650}"),
    (Channel::Homoglyphs, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "Тhe dоg ѕleeрs in thе hоuse, bеcαusе it rαιns tօԁaу (25 ԁays οf 2020)."),
    (Channel::Homoglyphs, "ru", "Собака спит в доме, потому что идёт дождь.", "Сοбaкa cпит в домe, поτoмγ чτօ идёт дождь."),
    (Channel::Truncation, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "The dog sleeps in the house, because it rains"),
    (Channel::Truncation, "ja", "犬は家で寝ている、今日は雨が降っているから。", "犬は家で寝ている、今日は雨"),
    (Channel::CodeSwitching, "de", "Der Hund schläft heute im Haus, und die Kinder spielen im Garten mit dem Freund.", "Der dog schläft today im Haus, und die Kinder spielen im Garten mit dem Freund."),
    (Channel::CodeSwitching, "en", "The dog sleeps in the house, because it rains today (25 days of 2020).", "The dog sleeps in the casa, because it rains today (25 días of 2020)."),
];

#[test]
fn the_noise_of_a_seed_never_changes() {
    for (channel, code, text, expected) in VECTORS {
        let language = Language::parse(code).unwrap();
        let noised = apply(*channel, text, language, Dose::Severe, 1337).unwrap();
        assert_eq!(noised.text, *expected, "{channel:?} {code}");
    }
    assert!(
        Channel::ALL
            .iter()
            .all(|channel| VECTORS.iter().any(|vector| vector.0 == *channel))
    );
}
