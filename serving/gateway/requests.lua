-- What HAProxy does beside its configuration: holding a request, and not going on for ever alone.

local rows = Map.new("rows.map", Map._str)
local canaries = Map.new("canaries.map", Map._str)
local PAUSE_MS = 20
local waits = Map.new("waits.map", Map._str)

-- Hold a request until a row that it may go to has a replica, or its endpoint was stopped for good. Only one that
-- found none comes here. All go to a canary that has all of the traffic: the first row restarts meanwhile.
-- control.py sees in the table "waiting" that somebody waits. It is not asked over a socket:
-- HAProxy 2.8 crashes when a client goes away while an action of Lua waits for one.
core.register_action("wait", {"http-req"}, function(txn)
  local uid = txn:get_var("txn.uid")
  local wish = txn:get_var("txn.wish")
  local function found()
    if rows:lookup(uid) then return true end
    if wish then return rows:lookup(uid .. "/" .. wish) end
    return canaries:lookup(uid) == "100"
  end
  local left = tonumber(txn:get_var("txn.wait_ms")) or 0
  while left > 0 and not found() and (waits:lookup(uid) or "0:0") ~= "0:0" do
    core.msleep(PAUSE_MS)
    left = left - PAUSE_MS
  end
end, 0)

local function lives(pid)
  local process = io.open("/proc/" .. (pid or "none") .. "/stat")
  if process then process:close() end
  return process ~= nil
end

-- Without control.py nobody's key is taken away: end where the next one does not come in time, and
-- at once where nobody is left who would start it: the next manager wants the port.
core.register_task(function()
  local alone_s, most_s = 0, tonumber(os.getenv("GATEWAY_ALONE_S"))
  while alone_s < most_s do
    core.sleep(1)
    local file = io.open("control.pid")
    local control, manager = nil, nil
    if file then
      control, manager = file:read("l", "l")
      file:close()
    end
    if lives(control) then
      alone_s = 0
    else
      alone_s = lives(manager) and alone_s + 1 or most_s
    end
  end
  os.exit(0)
end)
