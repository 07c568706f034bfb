use proptest::prelude::*;

use super::*;

fn base(letters: usize) -> Object {
    let letters: String = ('a'..='z').cycle().take(letters).collect();
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"base"}},"spec":"{letters}"}}"#
    ))
    .expect("an object")
}

/// Returns the text with these replacements, and the replacements with their ranges.
fn edit(known: &str, edits: &[(usize, usize, String)]) -> (String, Vec<Replacement>) {
    let (mut new, mut replacements, mut at) = (String::new(), Vec::new(), 0);
    for (skipped, removed, inserted) in edits {
        let start = (at + skipped).min(known.len());
        let end = (start + removed).min(known.len());
        new.push_str(&known[at..start]);
        replacements.push(Replacement { known: start..end, new: new.len()..new.len() + inserted.len() });
        new.push_str(inserted);
        at = end;
    }
    new.push_str(&known[at..]);
    (new, replacements)
}

fn from_base(base: &Object, text: &str, recipe: &Recipe) -> FromBase {
    let (first, second) = text.split_at(text.len() / 3);
    let shared = FromBase::new(base.clone(), recipe, &[first, "", second]).expect("whole characters");
    assert_eq!(shared.own().len(), recipe.size());
    shared
}

/// Checks that a part of the text is returned if it lies within one piece, and only then.
fn check_parts(shared: &FromBase, recipe: &Recipe, text: &str) {
    let mut ends = vec![0];
    for piece in &recipe.pieces {
        for len in [piece.len, piece.own].into_iter().filter(|len| *len > 0) {
            ends.push(ends[ends.len() - 1] + usize::from(len));
        }
    }
    let is_within = |start: usize, end: usize| {
        ends.windows(2).any(|piece| piece[0] <= start && end <= piece[1]) || start == end
    };
    for start in (0..text.len()).step_by(7) {
        for end in (start..text.len()).step_by(11) {
            let expected = is_within(start, end).then(|| &text[start..end]);
            assert_eq!(shared.part(start..end), expected, "{start}..{end} with pieces that end at {ends:?}");
        }
    }
    assert_eq!(shared.part(text.len()..text.len() + 1), None);
}

fn edits() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    prop::collection::vec((0..200_usize, 0..60_usize, "[0-9]{0,40}"), 0..8)
}

proptest! {
    /// After any sequence of edits, the text is what the edits make of it.
    #[test]
    fn edited_texts_are_those_of_their_edits(letters in 100..2_000_usize, versions in prop::collection::vec(edits(), 1..6)) {
        let base = base(letters);
        let mut known = base.json().to_owned();
        let mut stored: Option<FromBase> = None;
        for edits in &versions {
            let (new, replacements) = edit(&known, edits);
            let recipe = match &stored {
                None => Recipe::of_base(&base, replacements.into_iter()),
                Some(stored) => stored.replace(replacements.into_iter()),
            };
            let recipe = recipe.expect("few pieces");
            prop_assert!(recipe.pieces.iter().all(|piece| piece.len == 0 || usize::from(piece.len) >= MIN_COPY));
            let text = from_base(&base, &new, &recipe);
            prop_assert_eq!(text.text(), Some(new.clone()));
            prop_assert_eq!(text.layout().len(), new.len());
            check_parts(&text, &recipe, &new);
            stored = Some(text);
            known = new;
        }
    }
}

#[test]
fn a_copy_that_was_cut_short_becomes_own_text() {
    let base = base(300);
    let (new, replacements) = edit(base.json(), &[(100, 1, "1".into()), (MIN_COPY - 1, 1, "2".into())]);
    let recipe = Recipe::of_base(&base, replacements.into_iter()).expect("few pieces");
    assert_eq!(recipe.pieces.len(), 2, "{recipe:?}");
    assert_eq!(recipe.own, MIN_COPY + 1);
    assert_eq!(from_base(&base, &new, &recipe).text(), Some(new));
}

#[test]
fn there_are_not_more_pieces_than_the_limit() {
    let base = base(10_000);
    let edits = |count| edit(base.json(), &vec![(50, 1, "1".to_owned()); count]).1.into_iter();
    assert!(Recipe::of_base(&base, edits(MAX_PIECES - 1)).is_some());
    assert!(Recipe::of_base(&base, edits(MAX_PIECES)).is_none());
}

#[test]
fn a_base_beyond_the_limit_has_no_recipe() {
    let frame = base(0).json().len();
    assert!(Recipe::of_base(&base(MAX_BASE_BYTES - frame), [].into_iter()).is_some());
    assert!(Recipe::of_base(&base(MAX_BASE_BYTES - frame + 1), [].into_iter()).is_none());
}

#[test]
fn a_piece_that_splits_a_character_makes_no_text() {
    let base = Object::from_json(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"base"},"spec":"letters and é and more"}"#,
    )
    .expect("an object");
    let at = base.json().find('é').expect("it is there");
    for (split, is_text) in [(at, true), (at + 1, false), (at + 2, true)] {
        let replacement = Replacement { known: split..split, new: split..split + 1 };
        let recipe = Recipe::of_base(&base, [replacement].into_iter()).expect("few pieces");
        let text: String = base.json().chars().chain("x".chars()).collect();
        assert_eq!(FromBase::new(base.clone(), &recipe, &[&text]).is_some(), is_text, "{split}");
    }
}
