-- What HAProxy does beside its configuration: holding a request, and not going on for ever alone.

local rows = Map.new("rows.map", Map._str)

-- Hold a request until its endpoint has a replica. Only one that found none comes here.
-- control.py sees in the table "waiting" that somebody waits. It is not asked over a socket:
-- HAProxy 2.8 crashes when a client goes away while an action of Lua waits for one.
core.register_action("wait", {"http-req"}, function(txn)
  local uid = txn:get_var("txn.uid")
  local left = tonumber(txn:get_var("txn.wait_ms")) or 0
  while left > 0 and not rows:lookup(uid) do
    core.msleep(50)
    left = left - 50
  end
end, 0)

-- Without control.py nobody's key is taken away: end where the next one does not come in time.
core.register_task(function()
  local alone_s = 0
  while alone_s < tonumber(os.getenv("GATEWAY_ALONE_S")) do
    core.sleep(1)
    local file = io.open("control.pid")
    local pid = file and file:read("l") or ""
    if file then file:close() end
    local process = io.open("/proc/" .. pid .. "/stat")
    alone_s = process and 0 or alone_s + 1
    if process then process:close() end
  end
  os.exit(0)
end)
