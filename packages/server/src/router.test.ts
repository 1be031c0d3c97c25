import { describe, expect, it } from "vitest";
import { defineRoute, type Route } from "./route.ts";
import { createRouter } from "./router.ts";

function route(method: Route["method"], path: string): Route {
  return defineRoute({
    method,
    path,
    summary: path,
    tag: "test",
    access: "none",
    answers: {},
    handle: async () => ({ status: 200 }),
  });
}

const list = route("GET", "/api/sessions");
const create = route("POST", "/api/sessions");
const one = route("GET", "/api/sessions/{id}");
const newest = route("GET", "/api/sessions/{id}/asks");
const upload = route("PUT", "/api/asks/{id}/uploads/{name}");
const router = createRouter([list, create, one, newest, upload]);

describe("the router", () => {
  it("tells methods of one path apart", () => {
    expect(router.find("GET", "/api/sessions")).toEqual({ kind: "route", route: list, params: {} });
    expect(router.find("POST", "/api/sessions")).toEqual({ kind: "route", route: create, params: {} });
  });

  it("names what stands in the place of a parameter", () => {
    expect(router.find("GET", "/api/sessions/ses_1")).toEqual({ kind: "route", route: one, params: { id: "ses_1" } });
    expect(router.find("PUT", "/api/asks/a/uploads/photo.png")).toMatchObject({
      params: { id: "a", name: "photo.png" },
    });
  });

  it("decodes parameters, an encoded slash too, after the path was taken apart", () => {
    expect(router.find("PUT", "/api/asks/a%20b/uploads/..%2Fx")).toMatchObject({ params: { id: "a b", name: "../x" } });
  });

  it("leaves what is encoded wrongly as it stands", () => {
    expect(router.find("GET", "/api/sessions/%E0%A4%A")).toMatchObject({ params: { id: "%E0%A4%A" } });
  });

  it("lets HEAD find what GET does", () => {
    expect(router.find("HEAD", "/api/sessions/x/asks")).toMatchObject({ kind: "route", route: newest });
  });

  it("names the methods of a path that has others", () => {
    expect(router.find("DELETE", "/api/sessions")).toEqual({ kind: "wrong_method", methods: ["GET", "POST"] });
  });

  it.each([
    "/",
    "",
    "/api",
    "/api/sessions/",
    "/api/sessions/x/",
    "/api//sessions",
    "/API/sessions",
    "/api/sessions/x/asks/y",
  ])("does not know %j", (path) => {
    expect(router.find("GET", path)).toEqual({ kind: "unknown" });
  });
});
