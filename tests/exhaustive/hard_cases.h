/* Inputs whose result lies within 2^-53 (relative) of the middle between two float32: all that the exhaustive run
 * of prove_math found. {function, bits of the input} */
