//! `/proc_profile/select`: leads from selected rows to the page that shows them: one, a comparison of two, or a merge.

use axum::extract::RawQuery;
use axum::response::Redirect;

use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::subjects::parse_id;

/// Most profiles of a merge.
const MERGED_MAX: usize = 50;

/// `GET /proc_profile/select?id=&id=&do=`
pub(crate) async fn select(RawQuery(query): RawQuery) -> ApiResult<Redirect> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["id", "do"])?;
    let ids: Vec<String> =
        params.all("id").map(|id| parse_id(id).map(|id| id.to_string())).collect::<ApiResult<_>>()?;
    let place = place(params.get("do").unwrap_or("view"), &ids).map_err(Problem::bad_request)?;
    Ok(Redirect::to(&place))
}

/// The page of a selection, which is in the order of the list: newest first.
fn place(what: &str, ids: &[String]) -> Result<String, String> {
    let merge = || format!("/merge?id={}", ids.join("&id="));
    match (what, ids) {
        (_, []) => Err("select at least one profile: tick the boxes at the left of the list".to_owned()),
        ("view", [one]) => Ok(format!("/p/{one}")),
        ("view" | "merge", [_, _, ..]) if ids.len() <= MERGED_MAX => Ok(merge()),
        ("view" | "merge", [_, _, ..]) => {
            Err(format!("{} profiles are selected; at most {MERGED_MAX} are merged", ids.len()))
        }
        ("merge", _) => Err("select two or more profiles to merge them".to_owned()),
        ("compare", [newer, older]) => Ok(format!("/p/{newer}?base={older}")),
        ("compare", _) => Err(format!("select two profiles to compare them; {} are selected", ids.len())),
        _ => Err("do: expected view, compare or merge".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_selection_leads_to_the_page_for_it() {
        let check = |what: &str, count: usize, wanted: Result<&str, &str>| {
            let ids: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
            match (place(what, &ids), wanted) {
                (Ok(place), Ok(wanted)) => assert_eq!(place, wanted),
                (Err(why), Err(wanted)) => assert!(why.contains(wanted), "{why}"),
                (given, _) => panic!("{what} {count}: {given:?}"),
            }
        };
        check("view", 1, Ok("/p/p0"));
        check("view", 2, Ok("/merge?id=p0&id=p1"));
        check("compare", 2, Ok("/p/p0?base=p1"));
        check("merge", 3, Ok("/merge?id=p0&id=p1&id=p2"));
        check("view", 0, Err("at least one"));
        check("compare", 1, Err("two profiles"));
        check("merge", 1, Err("two or more"));
        check("merge", 51, Err("at most 50"));
        check("burn", 1, Err("expected view"));
    }
}
