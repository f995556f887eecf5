// Guard's extension for Pi: it asks guard-gate before every tool call and before
// every shell line of a person, tells it what else happens, and blocks whatever
// was not clearly passed. It decides nothing itself. Others that the operator
// names are loaded before it, so that it judges what they have made of a call.
//
// The launcher describes the gate in GUARD_PI, as JSON:
//
//	gate      absolute path of guard-gate
//	args      its arguments but for --role and --deadline: ["pi", "--socket", …]
//	deadline  seconds that it may take for an answer
//	guard     absolute path of guard, for the recovery tool
//	server    16 hex digits that name the recovery tool; "": there is none
//	results   true: somebody judges what tools give
//	env       environment of guard, an object; that of the gate is empty
//
// Without all that loading fails, and Pi ends with status 1.
//
// A call passes on one thing alone: the gate has ended with status 0 and written
// exactly {"pass":true}, or that with a "context", which the model is told with
// the tool's result. Any other status, a signal, any other output or more of it, a
// gate that can't be started or takes too long, and any fault in here: a block.
//
// Pi drops its extensions between two sessions, and goes on without one that it
// can't load again. So what is being dropped makes sure that this file can still
// be read, and ends Pi when it isn't loaded again in time.
//
// Other code in this process can do everything, by patching Pi itself. That can't
// be closed from here. What is patched after this was loaded, or by accident,
// changes no verdict: functions that one depends on are taken once, and what
// decides looks up nothing in Object.prototype. An input is frozen before it is
// judged, so that what runs is what was judged; a handler that would change it
// afterwards fails, which Pi takes for a block.
import children from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import util from "node:util";

const { spawn } = children, { readFileSync } = fs, { isProxy } = util.types, { isArray } = Array;
const { freeze, getOwnPropertyDescriptor, getPrototypeOf, defineProperty } = Object;
const { ownKeys } = Reflect, { parse, stringify } = JSON;
const { isFinite, isInteger } = Number, { now } = Date, { concat } = Buffer;
const { exit, kill, pid } = process;
const { setTimeout, clearTimeout, Error, Promise } = globalThis;
const call = Function.prototype.bind.bind(Function.prototype.call);
const decode = call(Buffer.prototype.toString);
const startsWith = call(String.prototype.startsWith), slice = call(String.prototype.slice);
const indexOf = call(String.prototype.indexOf), trim = call(String.prototype.trim), wellFormed = call(String.prototype.toWellFormed);
const push = call(Array.prototype.push), join = call(Array.prototype.join);
const plain = Object.prototype, home = os.homedir(), self = new URL(import.meta.url), text = decode(readFileSync(self));

const maxOutput = 128 * 1024; // of the gate: twice 64 KiB at most
const maxHeld = 10_000; // calls whose results are still to come
const maxResult = 1024 * 1024; // of what a tool gave, to be told
const grace = 5; // seconds that the gate has beyond its own deadline
const observing = 5; // seconds that it has to hand on what happens
const returning = 10; // seconds until this file must be loaded again

// record is an object without a prototype: what it lacks, it lacks.
const record = (fields) => {
  const made = { __proto__: null };
  const keys = ownKeys(fields);
  for (let i = 0; i < keys.length; i++) made[keys[i]] = fields[keys[i]];
  return freeze(made);
};

const reason = (code, what, cause) => `guard: ${code}: ${what}: ${cause}. Next: guard doctor`;

// settings reads GUARD_PI. Every error is one of loading.
const settings = () => {
  const need = (ok, what) => {
    if (!ok) throw new Error(`guard: config_invalid: reading GUARD_PI: ${what}. Next: start pi with: guard launch pi`);
  };
  const string = (v) => typeof v === "string" && indexOf(v, "\0") < 0;
  const object = (v) => typeof v === "object" && v !== null && !isArray(v);
  const path = (v) => string(v) && startsWith(v, "/");
  need(process.env.JITI_FS_CACHE === "false", "JITI_FS_CACHE is not false, so this file may come from a cache that others write");
  let given;
  try {
    given = parse(process.env.GUARD_PI);
  } catch {} // then it is no object
  need(object(given), "it is missing, or no JSON object");
  const { gate, args, deadline, guard, server, env, results } = record({ env: {}, results: false, ...given });
  need(path(gate), "gate is no absolute path");
  need(path(guard), "guard is no absolute path");
  need(isArray(args) && args[0] === "pi" && args.every(string), "args are not those of the gate");
  need(isInteger(deadline) && deadline >= 1 && deadline <= 570, "deadline is not 1 to 570 seconds");
  need(string(server) && /^([0-9a-f]{16})?$/.test(server), "server is not 16 hex digits");
  need(typeof results === "boolean", "results is neither true nor false");
  need(object(env) && ownKeys(env).every((name) => string(env[name])), "env holds more than strings");
  const asks = (role, seconds) => record({ seconds, args: freeze([...args, "--role", role, "--deadline", `${seconds}`]) });
  return record({ gate, guard, server, results, env: record(env), decide: asks("decide", deadline), observe: asks("observe", observing) });
};

// encode writes a tool's input as JSON, and freezes it on the way. It takes plain
// data alone: what a getter, a toJSON or a proxy says may be another thing later.
const encode = (value) => {
  if (value === null || typeof value === "boolean" || typeof value === "string") return stringify(value);
  if (typeof value === "number" && isFinite(value)) return stringify(value);
  const list = isArray(value);
  const parent = typeof value === "object" && !isProxy(value) ? getPrototypeOf(value) : undefined;
  if (parent === undefined || (!list && parent !== null && parent !== plain)) throw new Error("the input is not plain JSON");
  freeze(value);
  const keys = ownKeys(value), parts = [];
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    if (list && key === "length") continue;
    const { enumerable, get, set, value: held } = record(getOwnPropertyDescriptor(value, key));
    if (typeof key !== "string" || !enumerable || get || set) throw new Error("the input has a hidden property");
    if (held === undefined && !list) continue; // as in JSON
    push(parts, list ? encode(held) : `${stringify(key)}:${encode(held)}`);
  }
  if (list && parts.length !== value.length) throw new Error("the input has a list with gaps");
  return list ? `[${join(parts, ",")}]` : `{${join(parts, ",")}}`;
};

// start starts a child. All options are given, so that none is looked up in a
// prototype. It stays in Pi's process session: that, and that Pi has made its
// stdin, is how the broker tells it from what a tool has started.
const start = (program, args, env, errors) =>
  spawn(program, args, record({
    cwd: "/", env, stdio: ["pipe", "pipe", errors], detached: false, shell: false, argv0: undefined, uid: undefined, gid: undefined,
    signal: undefined, timeout: undefined, killSignal: undefined, serialization: undefined, windowsHide: true, windowsVerbatimArguments: false,
  }));

// run hands the gate a payload and answers {status, out, err} or {failed, cause}.
// The timer holds Pi: with nothing pending it would end as if all were done.
const run = (gate, { args, seconds }, payload, signal) =>
  new Promise((resolve) => {
    let child, over = false, size = 0;
    const outs = [], errs = [];
    const finish = (result) => {
      over = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      resolve(record(result));
    };
    const fail = (failed, cause) => {
      if (over) return;
      finish({ failed, cause });
      child?.kill("SIGKILL");
      for (const end of child?.stdio ?? []) end?.destroy(); // somebody may have been left behind who holds them
    };
    const abort = () => fail("deadline", "the call was aborted");
    const timer = setTimeout(fail, (seconds + grace) * 1000, "deadline", `the gate has not answered within ${seconds + grace} s`);
    const collect = (into) => (chunk) => {
      size += chunk.length;
      if (size > maxOutput) fail("internal", "the gate has written too much");
      else push(into, chunk);
    };
    try {
      child = start(gate, args, record({}), "pipe");
      child.on("error", (error) => fail("broker_unavailable", `the gate can't be started, ${error.code}`));
      child.on("close", (status, killed) => {
        if (killed !== null) fail("internal", `the gate was ended by ${killed}`);
        else if (!over) finish({ status, out: decode(concat(outs)), err: decode(concat(errs)) });
      });
      child.stdin.on("error", () => {}); // its status says more
      child.stdout.on("data", collect(outs));
      child.stderr.on("data", collect(errs));
      child.stdin.end(payload);
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort);
    } catch (error) {
      fail("internal", `${error?.message}`);
    }
  });

// verdict reads what the gate has answered: why it is a block, or else "" and a
// context for the model.
const verdict = (what, answer) => {
  const block = (why) => record({ why: slice(why, 0, 1000), context: "" });
  if (answer.failed) return block(reason(answer.failed, what, answer.cause));
  if (answer.status === 2 && trim(answer.err) !== "") return block(trim(answer.err));
  if (answer.status !== 0) return block(reason("internal", what, `the gate has ended with status ${answer.status}`));
  if (answer.out === '{"pass":true}') return record({ why: "", context: "" });
  let context;
  try {
    context = record(parse(answer.out)).context;
  } catch {} // then it is no pass
  if (typeof context === "string" && answer.out === `{"pass":true,"context":${stringify(context)}}`) return record({ why: "", context });
  return block(reason("internal", what, "what the gate has answered is no pass"));
};

// payload is what the gate hands on to the broker.
const payload = (name, ctx, fields, input, gave) => {
  const known = record({ hook_event_name: name, session_id: ctx.sessionManager.getSessionId(), cwd: ctx.cwd, mode: ctx.mode, home, ...fields });
  const keys = ownKeys(known), parts = [];
  for (let i = 0; i < keys.length; i++) {
    const value = known[keys[i]];
    if (typeof value === "string" || typeof value === "number") push(parts, `${stringify(keys[i])}:${stringify(value)}`);
  }
  if (input !== undefined) push(parts, `"tool_input":${input}`);
  if (gave !== undefined && gave.length <= maxResult) push(parts, `"tool_response":${gave}`);
  return `{${join(parts, ",")}}`;
};

const named = (event) => ({ tool_name: event.toolName, tool_use_id: event.toolCallId, parent_tool_use_id: event.parentToolCallId });

// What is loaded first stays: the settings that were in force, the functions that
// were taken, and the recovery tool. A later load only sets it up again.
export default async function guard(pi) {
  const key = Symbol.for("leaseguard.pi");
  if (globalThis[key] === undefined) {
    const config = settings();
    const recovery = config.server && recoveryTool(config);
    const lasting = record({ config, recovery, tool: recovery && (await recovery.known()), loads: [] });
    defineProperty(globalThis, key, { value: (api) => install(api, lasting) });
  }
  globalThis[key](pi);
}

const install = (pi, { config, recovery, tool, loads }) => {
  push(loads, now());
  const held = new Map(); // of calls that were passed: when, and what the model is to be told
  let owed; // what the gate could not be told

  const tell = async (what) => {
    const answer = await run(config.gate, config.observe, what);
    owed = answer.status === 0 ? undefined : what;
    return answer.out ? verdict("", answer).context : "";
  };
  const judge = async (name, what, signal) => {
    const object = `judging ${stringify(slice(`${name}`, 0, 100))}`;
    if (owed !== undefined) await tell(owed);
    if (owed !== undefined) return verdict(object, record({ failed: "broker_unavailable", cause: "the gate could not be told what happened before" }));
    return verdict(object, await run(config.gate, config.decide, what, signal));
  };
  // Pi's tools that read are known by their names alone, so the names must be Pi's.
  const own = record({ read: true, grep: true, find: true, ls: true });
  const posed = (name) => own[name] === true && !pi.getAllTools().some((t) => t.name === name && t.sourceInfo?.source === "builtin");

  pi.on("tool_call", async (event, ctx) => {
    try {
      if (typeof event.input !== "object" || event.input === null || isArray(event.input)) throw new Error("the input is no object");
      if (posed(event.toolName)) throw new Error("another extension has taken the name of a tool of Pi's");
      const { why, context } = await judge(event.toolName, payload("tool_call", ctx, named(event), encode(event.input)), ctx.signal);
      if (why !== "") return record({ block: true, reason: why });
      if (held.size >= maxHeld) held.clear();
      held.set(event.toolCallId, record({ context, since: now() }));
    } catch (error) {
      return record({ block: true, reason: reason("internal", "judging a call", `${error?.message}`) });
    }
  });

  pi.on("user_bash", async (event, ctx) => {
    let why;
    try {
      ({ why } = await judge("user_bash", payload("user_bash", ctx, { tool_name: "user_bash" }, encode({ command: event.command }))));
    } catch (error) {
      why = reason("internal", "judging a line", `${error?.message}`);
    }
    if (why !== "") return record({ result: record({ output: why, exitCode: 126, cancelled: false, truncated: false }) });
  });

  pi.on("tool_result", async (event, ctx) => {
    const { context, since } = held.get(event.toolCallId) ?? record({ context: "", since: now() });
    held.delete(event.toolCallId);
    let input = "{}", gave; // an input that is no JSON any more is told as another one
    try {
      input = encode(event.input);
      if (config.results) gave = stringify(event.content, (_, v) => (typeof v === "string" ? wellFormed(v) : v));
    } catch {}
    const said = await tell(payload("tool_result", ctx, { ...named(event), duration_ms: now() - since }, input, gave));
    const text = context && said ? `${context}\n${said}` : context + said;
    if (text !== "") return { content: [...event.content, { type: "text", text }], structuredContent: event.structuredContent };
  });

  pi.on("session_start", (event, ctx) => tell(payload("session_start", ctx, { source: `${event.reason}` })));
  for (const name of ["session_before_compact", "session_compact", "session_before_switch", "session_before_fork", "session_tree"]) {
    pi.on(name, (event, ctx) => tell(payload(name, ctx, { reason: event.reason })));
  }

  const end = (why) => {
    process.stderr.write(`${reason("internal", "ending pi", why)}\n`);
    try {
      exit(1);
    } finally {
      kill(pid, "SIGKILL");
    }
  };
  pi.on("session_shutdown", async (event, ctx) => {
    await tell(payload("session_shutdown", ctx, { reason: `${event.reason}` }));
    if (event.reason === "quit") return;
    let there;
    try {
      there = decode(readFileSync(self));
    } catch {} // then it is another
    if (there !== text) end("guard's extension is gone or changed, and pi is about to load it again");
    const before = loads.length;
    setTimeout(() => loads.length > before || end(`guard's extension was not loaded again within ${returning} s`), returning * 1000).unref();
  });

  if (recovery) {
    pi.registerTool({
      name: `guard_${config.server}_recover`, label: "Recover the lease", description: tool.description, parameters: tool.inputSchema,
      execute: (_id, input) => recovery.recover(input),
    });
  }
};
