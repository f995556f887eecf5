// The end of guard.js, which it is put behind: the recovery tool, guard mcp. It is
// one process, by which the broker knows it, as long as Pi lives and whatever is
// loaded anew. When it has ended, the next is taken only after an operator's approval.

const maxMessage = 8 * 1024 * 1024; // the context documents, escaped
const patience = 60; // seconds for an answer

// recoveryTool speaks MCP with it: known says what to offer, recover calls it.
const recoveryTool = (config) => {
  let child, tool, last = 0, line = "";
  const waiting = new Map();
  const drop = (why) => {
    child?.kill("SIGKILL");
    child = tool = undefined;
    (line = ""), (last = 0);
    for (const { reject } of waiting.values()) reject(new Error(`${why}; an operator's guard approve helps`));
    waiting.clear();
  };
  const hear = (chunk) => {
    line += chunk;
    if (line.length > maxMessage) return drop("the recovery tool has written too much");
    for (let end; (end = indexOf(line, "\n")) >= 0; line = slice(line, end + 1)) {
      try {
        const { id, result, error } = parse(slice(line, 0, end));
        if (error) waiting.get(id)?.reject(new Error(`${error.message}`));
        else waiting.get(id)?.resolve(result);
        waiting.delete(id);
      } catch {
        return drop("the recovery tool has written no JSON");
      }
    }
  };
  const send = (message) => child.stdin.write(`${stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = async (method, params) => {
    const timer = setTimeout(drop, patience * 1000, "the recovery tool takes too long");
    try {
      return await new Promise((resolve, reject) => {
        waiting.set(++last, { resolve, reject });
        send({ id: last, method, params });
      });
    } finally {
      clearTimeout(timer);
    }
  };
  const greet = async () => {
    const mine = (child = start(config.guard, ["mcp", "--server", `guard-${config.server}`], config.env, "ignore"));
    const gone = () => mine === child && drop("the recovery tool has ended");
    mine.on("error", gone).on("exit", gone).stdin.on("error", gone);
    mine.stdout.setEncoding("utf8").on("data", hear);
    for (const held of [mine, mine.stdin, mine.stdout]) held.unref(); // Pi ends without asking it
    await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "guard.js", version: "1" } });
    send({ method: "notifications/initialized" });
    return (await ask("tools/list", {})).tools[0];
  };
  const known = () => (tool ??= greet());
  const recover = async (input) => {
    await known();
    const { content, isError } = await ask("tools/call", { name: "recover", arguments: input });
    if (isError) throw new Error(content[0].text);
    return { content: [{ type: "text", text: content[0].text }], details: {} };
  };
  return record({ known, recover });
};
