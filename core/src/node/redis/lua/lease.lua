-- The lease that a text names: our token and its dot, for the label behind them may change. Any other text names none, so
-- that no value passes for the client's because it has the same letters: a form, or another library's value, proves no
-- lease.
local function lease(of)
  local token = string.match(of, '^[0-9a-f]+%.')
  return token and #token == 41 and token or nil
end
-- The name by which it is banned, too: of a value that is none of ours all its text.
local mine = lease(my_value) or my_value
