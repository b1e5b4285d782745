-- Lets wrk send as many requests in one write as its argument says.
init = function(args)
  local all = {}
  for i = 1, tonumber(args[1]) do all[i] = wrk.format() end
  batch = table.concat(all)
end
request = function() return batch end
