/** How Amazon's services word refusals. */
import type { AwsSignatureFlaw } from "./aws-signature.ts";
import type { VendorReply } from "./replies.ts";

/** What a flaw of the signature is called, and what is said of it. */
export const AWS_FLAWS: Readonly<Record<AwsSignatureFlaw, readonly [status: number, code: string, said: string]>> = {
  missing: [403, "MissingAuthenticationToken", "Request is missing Authentication Token"],
  malformed: [400, "IncompleteSignature", "The request signature does not conform to AWS standards."],
  unknown_key: [403, "InvalidClientTokenId", "The security token included in the request is invalid."],
  session_token: [403, "InvalidClientTokenId", "The security token included in the request is invalid."],
  expired_token: [403, "ExpiredToken", "The security token included in the request is expired"],
  scope: [403, "SignatureDoesNotMatch", "Credential should be scoped to a valid region."],
  clock: [403, "SignatureDoesNotMatch", "Signature expired: 20270115T080000Z is now earlier than 20270115T090000Z"],
  signature: [403, "SignatureDoesNotMatch", "The request signature we calculated does not match the one you provided."],
};

const REQUEST_ID = "d74b8436-ae13-5ab4-a9ff-ce54dfea72a0";

/** As services of the query protocol (SNS, STS) say it. */
export function awsQueryRefusal(status: number, code: string, said: string): VendorReply {
  const type = status < 500 ? "Sender" : "Receiver";
  const error = `<Error>\n    <Type>${type}</Type>\n    <Code>${code}</Code>\n    <Message>${escaped(said)}</Message>\n  </Error>`;
  const inner = `  ${error}\n  <RequestId>${REQUEST_ID}</RequestId>`;
  return xml(status, `<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">\n${inner}\n</ErrorResponse>`);
}

/** A result of the query protocol; `inner` is XML. */
export function awsQueryResult(action: string, inner: string): VendorReply {
  const metadata = `<ResponseMetadata><RequestId>${REQUEST_ID}</RequestId></ResponseMetadata>`;
  const namespace = action === "GetCallerIdentity" ? "https://sts" : "http://sns";
  const version = action === "GetCallerIdentity" ? "2011-06-15" : "2010-03-31";
  return xml(
    200,
    `<${action}Response xmlns="${namespace}.amazonaws.com/doc/${version}/"><${action}Result>${inner}</${action}Result>` +
      `${metadata}</${action}Response>`,
  );
}

function xml(status: number, body: string): VendorReply {
  return { status, headers: { "content-type": "text/xml", "x-amzn-requestid": REQUEST_ID }, body };
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
