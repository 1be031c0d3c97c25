export { AddressNotAllowed, type AddressRefusal, createGuardedLookup, judgeAddress } from "./address-guard.ts";
export {
  AddressRefused,
  AnswerTooLarge,
  createGuardedFetch,
  type GuardedAnswer,
  type GuardedFetch,
  type GuardedPost,
  judgePublicUrl,
  type PublicRefusal,
  type RefusedBecause,
  type ResolveAll,
} from "./guarded-fetch.ts";
export { judgeListedUrl } from "./listed-hosts.ts";
export {
  type AddressKind,
  FORBIDDEN_ADDRESS,
  operatorHostIssue,
  operatorLookup,
  operatorUrlIssue,
} from "./operator-address.ts";
export { isPublicAddress } from "./public-address.ts";
export { routed } from "./routed.ts";
