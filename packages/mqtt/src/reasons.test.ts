import { describe, expect, it } from "vitest";
import { mayPass } from "./failure.ts";
import { reasonFailure } from "./reasons.ts";
import { lostFailure, silentCloseFailure, socketFailure } from "./socket-errors.ts";

describe("a reason code", () => {
  it.each([
    [1, "connect", "unsupported"],
    [2, "connect", "bad_request"],
    [3, "connect", "unavailable"],
    [4, "connect", "credential"],
    [5, "connect", "credential"],
    [132, "connect", "unsupported"],
    [133, "connect", "bad_request"],
    [134, "connect", "credential"],
    [135, "connect", "credential"],
    [136, "connect", "unavailable"],
    [137, "connect", "unavailable"],
    [138, "connect", "credential"],
    [140, "connect", "credential"],
    [159, "connect", "rate"],
    [128, "publish", "unavailable"],
    [131, "publish", "unavailable"],
    [135, "publish", "credential"],
    [144, "publish", "bad_request"],
    [149, "publish", "too_big"],
    [151, "publish", "quota"],
    [153, "publish", "bad_request"],
    [128, "subscribe", "credential"],
    [135, "subscribe", "credential"],
    [143, "subscribe", "bad_request"],
    [151, "subscribe", "quota"],
    [129, "disconnect", "bad_request"],
    [130, "disconnect", "bad_request"],
    [139, "disconnect", "unavailable"],
    [142, "disconnect", "unavailable"],
    [147, "disconnect", "rate"],
    [149, "disconnect", "too_big"],
    [150, "disconnect", "rate"],
    [152, "disconnect", "unavailable"],
    [156, "disconnect", "unavailable"],
    [199, "disconnect", "unavailable"],
  ] as const)("%i on %s is %s", (code, phase, kind) => {
    expect(reasonFailure(code, phase, "broker:1883")).toMatchObject({ kind, code: String(code) });
  });

  it("is a sentence that says who said what and what to do", () => {
    expect(reasonFailure(134, "connect", "broker:8883").message).toBe(
      "The MQTT broker broker:8883 refused the connection: 134 bad user name or password; " +
        "check username and password, or the client certificate.",
    );
    expect(reasonFailure(135, "publish", "broker:8883").message).toMatch(/access rules for this login/);
  });
});

describe("a socket's error", () => {
  const failure = (code: string) => socketFailure(Object.assign(new Error("x"), { code }), "broker:8883", true);

  it.each([
    ["SELF_SIGNED_CERT_IN_CHAIN", "identity", /ca_cert/],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "identity", /ca_cert/],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "identity", /ca_cert/],
    ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "identity", /ca_cert/],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "identity", /another host name/],
    ["CERT_HAS_EXPIRED", "identity", /expired/],
    ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "credential", /client_cert and client_key/],
    ["ERR_SSL_TLSV1_ALERT_UNKNOWN_CA", "credential", /does not accept the client certificate/],
    ["ERR_SSL_SSL/TLS_ALERT_BAD_CERTIFICATE", "credential", /does not accept the client certificate/],
    ["ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE", "credential", /client certificate/],
    ["ERR_OSSL_X509_KEY_VALUES_MISMATCH", "credential", /do not belong together/],
    ["ERR_SSL_WRONG_VERSION_NUMBER", "unsupported", /does not speak TLS/],
    ["HTTP_401", "credential", /WebSocket/],
    ["HTTP_404", "unsupported", /\/mqtt/],
    ["HTTP_502", "unavailable", /WebSocket/],
    ["metadata_address", "bad_request", /link-local/],
    ["ENOTFOUND", "unavailable", /does not resolve/],
    ["EAI_AGAIN", "unavailable", /does not resolve/],
    ["ECONNREFUSED", "unavailable", /nothing listens/],
    ["ETIMEDOUT", "unavailable", /cannot be reached/],
    ["ECONNRESET", "unavailable", /Is this a TLS port\?/],
  ])("%s is %s", (code, kind, sentence) => {
    expect(failure(code)).toMatchObject({ kind, code, message: expect.stringMatching(sentence) });
  });

  it("of several addresses is that of the first", () => {
    const refused = Object.assign(new Error("x"), { code: "ECONNREFUSED" });
    expect(socketFailure(new AggregateError([refused]), "broker:1883", false).code).toBe("ECONNREFUSED");
  });

  it("points to the scheme when the broker closes without a word", () => {
    expect(silentCloseFailure("broker:8883", false).message).toMatch(/If this is a TLS port, use mqtts: or wss:/);
  });

  it("without a code comes from what was read, which is then not MQTT", () => {
    const failure = socketFailure(new Error("Invalid header flag bits"), "broker:80", false);
    expect(failure).toMatchObject({ kind: "unsupported", message: expect.stringMatching(/does not speak MQTT/) });
  });

  it("on a connection that was up leaves hope, whatever it is", () => {
    expect(lostFailure(new Error("Keepalive timeout"), "broker:1883")).toMatchObject({ kind: "unavailable" });
    expect(lostFailure(Object.assign(new Error("x"), { code: "ECONNRESET" }), "b")).toMatchObject({
      code: "ECONNRESET",
    });
    expect(lostFailure(undefined, "broker:1883")).toMatchObject({ code: "closed" });
  });
});

describe("mayPass", () => {
  it("is true of what another attempt can cure", () => {
    expect(mayPass(reasonFailure(136, "connect", "b"))).toBe(true);
    expect(mayPass(reasonFailure(159, "connect", "b"))).toBe(true);
    expect(mayPass(reasonFailure(135, "connect", "b"))).toBe(false);
  });
});
