-- Which lease a text names: our token and its dot, for the label behind them may change. Any other text names none, so that no value is
-- taken for the asker's because it has the same letters: what stands there in a form, or is another library's, proves nothing.
local function lease(of)
  local token = string.match(of, '^[0-9a-f]+%.')
  return token and #token == 41 and token or nil
end
-- By which it is banned, too: of a value that is none of ours all of it.
local mine = lease(my_value) or my_value
