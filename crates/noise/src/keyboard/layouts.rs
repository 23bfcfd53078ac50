//! The letters of each layout. A level has four rows: digits, upper, home and lower row of letters,
//! each from its first key. `_` is a key without a letter.
//!
//! Layouts are those that Unicode CLDR and the makers of operating systems list for the languages;
//! InScript is Indian Standard IS 16350, Thai is Kedmanee (TIS 820-2538), Korean KS X 5002, Hebrew
//! SI 1452, Persian ISIRI 9147, Bulgarian BDS 5237.

use crate::language::Keyboard;

/// Levels of each keyboard: without and with Shift, where Shift gives other letters.
#[rustfmt::skip]
pub(super) const ROWS: &[(Keyboard, &[[&str; 4]])] = &[
    (Keyboard::Qwerty, &[["", "qwertyuiop", "asdfghjkl", "zxcvbnm"]]),
    (Keyboard::Qwertz, &[["__________ß", "qwertzuiopü", "asdfghjklöä", "yxcvbnm"]]),
    (Keyboard::Azerty, &[["_é____è_çà", "azertyuiop", "qsdfghjklmù", "wxcvbn"]]),
    (Keyboard::Spanish, &[["", "qwertyuiop", "asdfghjklñ", "zxcvbnm"]]),
    (Keyboard::Italian, &[["___________ì", "qwertyuiopè", "asdfghjklòàù", "zxcvbnm"]]),
    (Keyboard::Portuguese, &[["", "qwertyuiop", "asdfghjklç", "zxcvbnm"]]),
    (Keyboard::Danish, &[["", "qwertyuiopå", "asdfghjklæø", "zxcvbnm"]]),
    (Keyboard::Norwegian, &[["", "qwertyuiopå", "asdfghjkløæ", "zxcvbnm"]]),
    (Keyboard::Swedish, &[["", "qwertyuiopå", "asdfghjklöä", "zxcvbnm"]]),
    (Keyboard::Icelandic, &[["__________ö", "qwertyuiopð", "asdfghjklæ", "zxcvbnm__þ"]]),
    (Keyboard::Turkish, &[["", "qwertyuıopğü", "asdfghjklşi", "zxcvbnmöç"]]),
    (Keyboard::Azerbaijani, &[["", "qüertyuiopöğ", "asdfghjklıə", "zxcvbnmçş"]]),
    (Keyboard::Hungarian, &[["_________öüó", "qwertzuiopőú", "asdfghjkléáű", "yxcvbnm"]]),
    (Keyboard::Czech, &[["_ěščřžýáíé", "qwertzuiopú", "asdfghjklů", "yxcvbnm"]]),
    (Keyboard::Slovak, &[["_ľščťžýáíé", "qwertzuiopúä", "asdfghjklô", "yxcvbnm"]]),
    (Keyboard::Croatian, &[["", "qwertzuiopšđ", "asdfghjklčćž", "yxcvbnm"]]),
    (Keyboard::Albanian, &[["", "qwertzuiopç", "asdfghjklë", "yxcvbnm"]]),
    (Keyboard::Romanian, &[["", "qwertyuiopăî", "asdfghjklșțâ", "zxcvbnm"]]),
    (Keyboard::Russian, &[["", "йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"]]),
    (Keyboard::Ukrainian, &[["", "йцукенгшщзхї", "фівапролджє", "ячсмитьбю"]]),
    (Keyboard::Belarusian, &[["", "йцукенгшўзх", "фывапролджэ", "ячсмітьбю"]]),
    (Keyboard::Bulgarian, &[["", "_уеишщксдзц", "ьяаожгтнвмч", "юйъэфхпрлб"]]),
    (Keyboard::Serbian, &[["", "љњертзуиопшђ", "асдфгхјклчћж", "_џцвбнм"]]),
    (Keyboard::Mongolian, &[["", "фцужэнгшүзкъ", "йыбөахролдп", "ячёсмитьвю"]]),
    (Keyboard::Greek, &[["", "_ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"]]),
    (Keyboard::Arabic, &[["", "ضصثقفغعهخحجد", "شسيبلاتنمكط", "ئءؤر_ىةوزظ"]]),
    (Keyboard::Persian, &[["", "ضصثقفغعهخحجچ", "شسیبلاتنمکگ", "ظطزرذدپو"]]),
    (Keyboard::Urdu, &[["", "قوعرتےءیہپ", "اسدفگھجکل", "زشچطبنم"]]),
    (Keyboard::Hebrew, &[["", "__קראטוןםפ", "שדגכעיחלךף", "זסבהנמצתץ"]]),
    (Keyboard::Georgian, &[
        ["", "ქწერტყუიოპ", "ასდფგჰჯკლ", "ზხცვბნმ"],
        ["", "_ჭ_ღთ_____", "_შ____ჟ__", "ძ_ჩ____"],
    ]),
    (Keyboard::Thai, &[
        ["___ภถุึคตจขช", "_ไำพะัีรนยบล", "ฟหกดเ้่าสวง", "ผปแอิืทมใฝ"],
        ["", "__ฎฑธํ๊ณ_ญฐ_", "ฤฆฏโฌ็๋ษศซ_", "__ฉฮฺ์_ฒฬฦ"],
    ]),
    (Keyboard::TwoSet, &[
        ["", "ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ"],
        ["", "ㅃㅉㄸㄲㅆ___ㅒㅖ", "", ""],
    ]),
    (Keyboard::InScript, &[
        ["", "ौैाीूबहगदजड", "ोे्िुपरकतचट", "_ंमनवलस__य"],
        ["", "औऐआईऊभङघधझढञ", "ओएअइउफऱखथछठ", "_ँण__ळशष"],
    ]),
];
