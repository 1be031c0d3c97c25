import { matchesAction } from "@leafmesh/core/action-pattern";

/** Whether an agent may ask for `action`. `allow` left out allows all, an empty one nothing; `deny` wins. */
export function isAllowed(
  action: string,
  { allow, deny }: { readonly allow?: readonly string[] | undefined; readonly deny?: readonly string[] | undefined },
): boolean {
  const isIn = (patterns: readonly string[]) => patterns.some((pattern) => matchesAction(pattern, action));
  return !(deny && isIn(deny)) && (!allow || isIn(allow));
}
