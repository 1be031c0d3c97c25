/** Pieces that several parts of the file's schema use. */
import * as z from "zod";

/** An address with a query where a service asks for one. */
export const endpointAddress = z
  .string()
  .regex(
    /^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?(\?[^\s#]*)?$/,
    "must be an address that begins with http:// or https://, without user and #",
  );

export const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "must be a header name");

export const headerValue = z
  .string()
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "must be one line of characters that a header can carry")
  .meta({ secret: true });
