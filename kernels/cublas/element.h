/* Elements of the matrices that cuBLAS reads. */
#ifndef IQ_CUBLAS_ELEMENT_H
#define IQ_CUBLAS_ELEMENT_H

enum iq_cublas_element { IQ_CUBLAS_FLOAT, IQ_CUBLAS_BFLOAT, IQ_CUBLAS_HALF, IQ_CUBLAS_ELEMENTS };

#endif
