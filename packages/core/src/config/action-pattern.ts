/**
 * Whether an action's name matches an entry of `allow` or `deny`: `*` stands for any characters, `?` for one, everything
 * else for itself, letter case included.
 */
export function matchesAction(pattern: string, action: string): boolean {
  let at = 0;
  let inPattern = 0;
  let afterStar = -1;
  let starTakesTo = 0;
  while (at < action.length) {
    if (pattern[inPattern] === "*") {
      afterStar = ++inPattern;
      starTakesTo = at;
    } else if (pattern[inPattern] === "?" || pattern[inPattern] === action[at]) {
      inPattern++;
      at++;
    } else if (afterStar >= 0) {
      inPattern = afterStar;
      at = ++starTakesTo;
    } else {
      return false;
    }
  }
  while (pattern[inPattern] === "*") inPattern++;
  return inPattern === pattern.length;
}
