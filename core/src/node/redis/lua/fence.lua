-- The fence of a vote that is given, and the reply: put into the scripts where they say so. `counter` is its key.
if not A[5] then return 1 end
local fence = A[7]
if fence == '0' then
  -- Nothing is proposed: nothing is counted, and what is stored was others'.
  fence = call('ZSCORE', counter, 'f')
  fence = fence and string.format('%.0f', fence) or ''
elseif fence ~= '' then
  if tonumber(fence) > now + 10000000 then fence = string.format('%.0f', now + 10000000) end
  local last = A[9] and call('ZSCORE', counter, 'f')
  if last and last + A[9] > tonumber(fence) then fence = string.format('%.0f', last + A[9]) end
  if call('ZADD', counter, 'GT', 'CH', fence, 'f') == 0 then
    fence = string.format('%.0f', call('ZINCRBY', counter, '1', 'f'))
  end
  -- Whose its own of them is, by the first 48 bits of the token, for those who look.
  local own = string.format('%.0f', math.max(fence - (A[9] or 1) + 1, 0))
  call('ZADD', counter, own, 'h', string.format('%.0f', tonumber(string.sub(mine, 1, 12), 16) or 0), 't')
  if A[8] ~= '' then call('PEXPIRE', counter, A[8]) end
end
return {1, fence, time[1], time[2]}
