export { type AskQuery, askView, getAsk, listAsks } from "./ask-view.ts";
export {
  type Alongside,
  createPendingCalls,
  isOpenCall,
  isOpenState,
  type Moved,
  type NewCall,
  type OpenCall,
  type OpenCallState,
  type PendingCalls,
  type Settlement,
} from "./pending-calls.ts";
