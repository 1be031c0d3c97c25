/** Finds the route of a request by its path template. */
import type { Route } from "./route.ts";

export type Found =
  | { readonly kind: "route"; readonly route: Route; readonly params: Readonly<Record<string, string>> }
  /** The path is known, the method is not; `methods` are those that are. */
  | { readonly kind: "wrong_method"; readonly methods: readonly string[] }
  | { readonly kind: "unknown" };

export interface Router {
  /** `path` as it stands in the request line, without the query. `HEAD` finds what `GET` does. */
  find(method: string, path: string): Found;
}

interface Template {
  readonly route: Route;
  readonly segments: readonly string[];
}

export function createRouter(routes: readonly Route[]): Router {
  const templates: readonly Template[] = routes.map((route) => ({ route, segments: route.path.split("/") }));
  return {
    find(method, path) {
      const wanted = method === "HEAD" ? "GET" : method;
      const segments = path.split("/");
      const fitting = templates.filter((template) => fits(template.segments, segments));
      const found = fitting.find(({ route }) => route.method === wanted);
      if (found) return { kind: "route", route: found.route, params: paramsOf(found.segments, segments) };
      if (fitting.length === 0) return { kind: "unknown" };
      return { kind: "wrong_method", methods: fitting.map(({ route }) => route.method) };
    },
  };
}

function fits(template: readonly string[], segments: readonly string[]): boolean {
  return (
    template.length === segments.length &&
    template.every((part, index) => (isParameter(part) ? segments[index] !== "" : part === segments[index]))
  );
}

function paramsOf(template: readonly string[], segments: readonly string[]): Readonly<Record<string, string>> {
  const params: Record<string, string> = {};
  template.forEach((part, index) => {
    if (isParameter(part)) params[part.slice(1, -1)] = decode(segments[index] ?? "");
  });
  return params;
}

function isParameter(part: string): boolean {
  return part.startsWith("{");
}

/** What is not percent-encoded as it should be is taken as it stands: it names nothing that exists. */
function decode(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
