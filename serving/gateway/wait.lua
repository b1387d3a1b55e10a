-- Holds a request until its endpoint has a replica. Only one that found none comes here.
--
-- control.py sees in the table "waiting" that somebody waits. It is not asked over a socket:
-- HAProxy 2.8 crashes when a client goes away while an action of Lua waits for one.

local rows = Map.new("rows.map", Map._str)

core.register_action("wait", {"http-req"}, function(txn)
  local uid = txn:get_var("txn.uid")
  local left = tonumber(txn:get_var("txn.wait_ms")) or 0
  while left > 0 and not rows:lookup(uid) do
    core.msleep(50)
    left = left - 50
  end
end, 0)
