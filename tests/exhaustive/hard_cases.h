/* Inputs whose result lies within 2^-52 (relative) of the middle between two float32, from a search over all inputs:
 * here a sum that is rounded twice, or a coefficient a little off, shows first. {function, bits of the input} */
{"exp", 0xbbf0edf1}, {"exp", 0xc16912cd}, {"log", 0x111c87f8}, {"log", 0x1a8446cb}, {"log", 0x1f116ab8},
    {"log", 0x29fd22f8}, {"log", 0x2c4c24b7}, {"log", 0x3c413d3a}, {"log", 0x41178feb}, {"log", 0x4665a9a6},
    {"log", 0x4c5d65a5}, {"log", 0x4d604ebe}, {"log", 0x5ee8984e}, {"log", 0x65d890d3}, {"log", 0x66a8c860},
    {"log", 0x6f31a8ec}, {"log", 0x79e7ec37}, {"sin", 0x3ef3830f}, {"sin", 0x4371ade3}, {"sin", 0x46199998},
    {"sin", 0x4fb56937}, {"sin", 0x55cafb2a}, {"sin", 0x6446cec0}, {"sin", 0x67a9242b}, {"sin", 0x6d734599},
    {"sin", 0x73243f06}, {"sin", 0x7a5aacdb}, {"cos", 0x39800000}, {"cos", 0x3a544395}, {"cos", 0x3c107fe6},
    {"cos", 0x424790ce}, {"cos", 0x5922aa80}, {"cos", 0x59443c0a}, {"cos", 0x5f18b878}, {"cos", 0x6115cb11},
    {"cos", 0x61703976}, {"cos", 0x7908cd73}, {"cos", 0x7a4b1a27},
